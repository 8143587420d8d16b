// The split that tests of whole plans use: a transformer layer and a head.
#pragma once

#include <memory>

#include "harness.h"

namespace minfer_cuda::test {

/// A transformer layer of a Qwen-like (bias) or Gemma-like (head norms, GELU) model, then a head.
struct Layer {
  std::unique_ptr<Split> split = std::make_unique<Split>();
  uint32_t x = 0, pos = 0, slot = 0, kv_len = 0, logits = 0, best = 0, residual = 0;
  int64_t nt = 0;
  minfer_kv_desc kv{};  ///< of region 0
};

/// `value_type`: of the value and down matrices; `valid` of `nt` tokens are in use; `dim` of a
/// head; `pages` of 64 positions, 0: for the tokens. Not materialised, so it needs no GPU.
Layer make_layer(uint32_t type, uint32_t value_type, int64_t nt, int64_t valid, bool head_norms,
                 int64_t dim = 64, int64_t pages = 0);

}  // namespace minfer_cuda::test
