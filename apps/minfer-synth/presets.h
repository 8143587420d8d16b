// Shapes of known models, for synthetic files of their size. Immutable, safe from any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace minfer::synth {

enum class Arch { kLlama, kQwen2, kQwen3, kGemma3 };

/// The name as `general.architecture` spells it.
std::string_view arch_name(Arch arch);

/// Sizes of one model. Lengths are in elements, the context in tokens.
struct Shape {
  std::string_view name;
  Arch arch = Arch::kLlama;
  int64_t n_embd = 0;
  int64_t n_layer = 0;
  int64_t n_head = 0;
  int64_t n_head_kv = 0;
  int64_t head_dim = 0;
  int64_t n_ff = 0;
  int64_t n_vocab = 0;
  int64_t context = 0;
  float rope_base = 10000;
  float rms_eps = 1e-6f;
  bool tied = false;         ///< the embedding is also the output matrix
  int64_t window = 0;        ///< of sliding-window layers, in tokens; 0: none
  float rope_factor = 0;     ///< Llama 3.1's frequency factors stretch by this; 0: none
  float linear_scaling = 0;  ///< factor of linear RoPE scaling; 0: none
};

std::span<const Shape> all_presets();
/// The preset called `name`, or nullptr.
const Shape* find_preset(std::string_view name);

}  // namespace minfer::synth
