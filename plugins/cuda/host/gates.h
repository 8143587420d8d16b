// The plugin's gates: named switches, declared to the core in one table (gates.cpp).
#pragma once

#include <cstdint>

#include "minfer/plugin_abi.h"

namespace minfer_cuda {

/// Index of each gate in the table; the order is part of the table only.
enum class Gate : uint32_t {
  kDisable,
  kMmq,
  kNoPrefillGemm,
  kNoKqMmvq,
  kSmallMGemm,
  kMmqMinTokens,
  kGemmMinTokens,
  kMmqSplits,
  kNoDecodeActFuse,
  kNoFuseQkv,
  kNoFuseFfn,
  kNoFuseRope,
  kNoFuseStore,
  kNoFuseGather,
  kNoFuseResidual,
  kNoSplitKv,
  kNoTiledAttention,
  kNoCudaGraph,
  kNoPrefillCapture,
  kReference,
  kNoOverlap,
  kNoDecodeMma,
  kNoHopper,
  kHopperDecodeMaxTokens,
  kHopperRowTokens,
  kHopperDecodeWarps,
  kHopperGemmMinTokens,
  kNoHopperFuse,
  kNoHopperOverlap,
  kNoHopperAttention,
  kCount
};

/// The table, kCount entries.
const minfer_gate* gate_table();

/// An immutable snapshot, with defaults where the core gave none.
class Gates {
 public:
  explicit Gates(const minfer_gate_values* values);
  int64_t operator[](Gate gate) const { return values_[static_cast<uint32_t>(gate)]; }
  bool on(Gate gate) const { return (*this)[gate] != 0; }

 private:
  int64_t values_[static_cast<uint32_t>(Gate::kCount)];
};

}  // namespace minfer_cuda
