// Tiny random models whose weights follow from tensor names, the same here and in
// tests/golden/record_transformers.py, so that goldens and references need no stored weights.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "minfer/result.h"

namespace minfer::testing {

struct TinyModel {
  std::string arch;  ///< qwen2, qwen3, llama, gemma3
  bool tied = false;
  float rope_base = 10000.0f;
  std::vector<float> rope_freqs;  ///< frequency factors; empty: none
};

/// Elements of the tensor of this name, the first dimension innermost.
std::vector<float> tiny_weights(const std::string& name, const std::vector<int64_t>& ne);

/// Writes an f32 model with 2 layers (gemma3: 7) of width 64, 4 heads on 2, 256 tokens, no
/// tokenizer.
Result<void> write_tiny_model(const std::filesystem::path& path, const TinyModel& model);

}  // namespace minfer::testing
