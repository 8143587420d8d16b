// Tiny random models whose weights follow from tensor names, the same here and in
// record_transformers.py, so that goldens need no stored weights.
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

/// Writes an f32 model with 2 layers (gemma3: 7) of width 64, 4 heads on 2, 256 tokens, no
/// tokenizer.
Result<void> write_tiny_model(const std::filesystem::path& path, const TinyModel& model);

}  // namespace minfer::testing
