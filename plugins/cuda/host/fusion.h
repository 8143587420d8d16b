// What a compile finds out about a graph before it emits steps: readers, kernels and fusions.
//
// A fused node is absorbed by an anchor, whose step does its work. Nothing observed from outside is
// ever absorbed away: escaping and kept tensors are still written.
#pragma once

#include <array>
#include <vector>

#include "dispatch.h"
#include "graph.h"

namespace minfer_cuda {

/// A matmul whose result goes straight into an addition.
struct Residual {
  uint32_t add = kNone;    ///< node
  uint32_t other = kNone;  ///< tensor added
};

/// The nodes that one KV_STORE step does: rotations and per-head norms of its operands and the
/// query's.
struct HeadChain {
  uint32_t input = kNone;   ///< tensor that the chain reads
  uint32_t norm = kNone;    ///< RMS_NORM node or kNone
  uint32_t rope = kNone;    ///< ROPE node or kNone
  uint32_t output = kNone;  ///< tensor at its end
};
struct StoreChains {
  HeadChain key, value, query;  ///< query.input is kNone when it is not fused
  uint32_t attention = kNone;   ///< the first reader of the query and of what is stored, then
};

class Fusion {
 public:
  Fusion(const Graph& graph, const Caps& caps, const Gates& gates);

  /// Node that does n's work, or kNone.
  uint32_t absorbed_into(uint32_t n) const { return absorbed_[n]; }
  const MatmulChoice& choice(uint32_t n) const { return choices_[n]; }
  /// The matmuls of n's launch, n first.
  std::vector<uint32_t> group(uint32_t n) const;
  Residual residual(uint32_t n) const { return residuals_[n]; }
  /// The SILU or GELU node absorbed by MUL node n, or kNone.
  uint32_t gate_of(uint32_t n) const { return gates_of_[n]; }
  StoreChains chains(uint32_t n) const { return chains_[n]; }
  /// The MUL node whose gated unit the launch of matmuls n (gate first in gated_pair) computes, or
  /// kNone.
  uint32_t gated_unit(uint32_t n) const { return gated_units_[n]; }
  /// Gate and up matmuls of a MUL node that a matmul launch computes.
  std::array<uint32_t, 2> gated_pair(uint32_t mul) const { return gated_pairs_[mul]; }
  /// The norm that reads matmul n's result and is folded into it, or kNone.
  uint32_t norm_after(uint32_t n) const { return norms_after_[n]; }

  /// Some reader wants the tensor as int8 rows.
  bool wants_int8(uint32_t tensor) const;
  /// Nobody reads it but wgmma matmuls, as f16 rows in fragment order.
  bool only_fragments(uint32_t tensor) const;
  /// Some reader, or someone outside, wants it as f32.
  bool wants_f32(uint32_t tensor) const;
  bool observed(uint32_t tensor) const { return observed_[graph_.base(tensor)]; }
  /// The node that writes the tensor's memory last, or kNone.
  uint32_t producer(uint32_t tensor) const { return producer_[graph_.base(tensor)]; }

 private:
  void index_readers();
  void choose_kernels(const Caps& caps, const Gates& gates);
  void fuse_gates();
  void fuse_stores();
  void fuse_groups(const Gates& gates);
  void fuse_residuals();
  void fuse_gated_units();
  void fold_norms();
  bool only_matmul_readers(uint32_t tensor, MatmulKernel kernel) const;
  bool only_reader(uint32_t tensor, uint32_t node) const;
  bool ready_before(uint32_t tensor, uint32_t node) const;
  HeadChain chain_to(uint32_t tensor, uint32_t reader) const;
  void absorb(const HeadChain& chain, uint32_t anchor);

  const Graph& graph_;
  std::vector<std::vector<uint32_t>> readers_;  // per owning tensor
  std::vector<uint32_t> producer_;
  std::vector<bool> observed_;
  std::vector<MatmulChoice> choices_;
  std::vector<uint32_t> absorbed_;
  std::vector<Residual> residuals_;
  std::vector<uint32_t> gates_of_;
  std::vector<StoreChains> chains_;
  std::vector<std::vector<uint32_t>> groups_;
  std::vector<uint32_t> gated_units_;
  std::vector<std::array<uint32_t, 2>> gated_pairs_;
  std::vector<uint32_t> norms_after_;
};

/// True for a 2-D f32 tensor of contiguous rows.
bool is_rows(const Tensor& t);

}  // namespace minfer_cuda
