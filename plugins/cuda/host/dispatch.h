// The decision tables: which kernel multiplies, by tokens, type, shape, device and gates, and which
// attends in prefill.
//
// For matmul, one table of rules in order of preference; the first that takes a query wins, and
// what the faster ones before it said is the reason that `--explain` prints. Pure.
#pragma once

#include <string>

#include "../kernels/attention.h"
#include "device.h"

namespace minfer_cuda {

enum class MatmulKernel { kGeneric, kMmvq, kMmq, kGemmHalf, kHopperDecode, kHopperGemm };

/// True when the kernel reads int8 activations.
inline bool takes_int8(MatmulKernel kernel) {
  return kernel == MatmulKernel::kMmvq || kernel == MatmulKernel::kMmq ||
         kernel == MatmulKernel::kHopperDecode;
}

struct MatmulQuery {
  uint32_t type = 0;
  int64_t id = 0, od = 0, tokens = 0;
  bool aligned = true;  ///< rows of activations and results start at 16-byte boundaries
};

struct MatmulChoice {
  MatmulKernel kernel = MatmulKernel::kGeneric;
  std::string label;
  std::string
      why;  ///< why the faster kernels for the query were not taken; empty: it is the fastest
};

MatmulChoice choose_matmul(const Caps& caps, const Gates& gates, const MatmulQuery& query);

enum class PrefillAttention { kNone, kTiled, kHopper };

/// The kernel for attention of many tokens per sequence; kNone: those for few tokens have to do.
/// `why` says why faster ones were not taken.
PrefillAttention choose_prefill_attention(const Caps& caps, const Gates& gates,
                                          const AttentionCall& shape, std::string& why);

/// The table for one device as text: a line per type and range of tokens.
std::string describe_dispatch(const Caps& caps, const Gates& gates);

}  // namespace minfer_cuda
