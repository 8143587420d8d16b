#include "presets.h"

#include <algorithm>
#include <array>

namespace minfer::synth {
namespace {

using enum Arch;

// Tiny models keep what is special in their architecture: grouped heads, a head size that is not
// n_embd / n_head, and for gemma3 a full layer and a window shorter than a test's prompt.
// Qwen2.5's small models share embedding and head; here each has its own, so that files are as
// large as those that measurements of these shapes are usually made with. --head tied undoes it.
// clang-format off
constexpr std::array kPresets = {
    // name, architecture, n_embd, layers, heads, KV heads, head size, n_ff, vocabulary, context,
    // RoPE base, norm epsilon, tied, window, factor of Llama 3.1's frequencies, linear scaling
    Shape{"tiny",         kQwen2,   256,  2,  4, 2,  64,   512,    320,   2048, 1e6f, 1e-6f, false,    0,  0, 0},
    Shape{"tiny-qwen3",   kQwen3,   256,  2,  4, 2, 128,   512,    320,   2048, 1e6f, 1e-6f,  true,    0,  0, 0},
    Shape{"tiny-llama",   kLlama,   256,  2,  4, 2,  64,   512,    320,   2048, 5e5f, 1e-5f, false,    0,  8, 0},
    Shape{"tiny-gemma3",  kGemma3,  256,  6,  4, 1,  64,   512,    320,   2048, 1e6f, 1e-6f,  true,   16,  0, 0},
    Shape{"smollm2-135m", kLlama,   576, 30,  9, 3,  64,  1536,  49152,   8192, 1e5f, 1e-5f,  true,    0,  0, 0},
    Shape{"llama3.2-1b",  kLlama,  2048, 16, 32, 8,  64,  8192, 128256, 131072, 5e5f, 1e-5f,  true,    0, 32, 0},
    Shape{"llama3-8b",    kLlama,  4096, 32, 32, 8, 128, 14336, 128256,   8192, 5e5f, 1e-5f, false,    0,  0, 0},
    Shape{"llama3.1-8b",  kLlama,  4096, 32, 32, 8, 128, 14336, 128256, 131072, 5e5f, 1e-5f, false,    0,  8, 0},
    Shape{"qwen2.5-0.5b", kQwen2,   896, 24, 14, 2,  64,  4864, 151936,  32768, 1e6f, 1e-6f, false,    0,  0, 0},
    Shape{"qwen2.5-1.5b", kQwen2,  1536, 28, 12, 2, 128,  8960, 151936,  32768, 1e6f, 1e-6f, false,    0,  0, 0},
    Shape{"qwen2.5-7b",   kQwen2,  3584, 28, 28, 4, 128, 18944, 152064,  32768, 1e6f, 1e-6f, false,    0,  0, 0},
    Shape{"qwen3-0.6b",   kQwen3,  1024, 28, 16, 8, 128,  3072, 151936,  40960, 1e6f, 1e-6f,  true,    0,  0, 0},
    Shape{"qwen3-8b",     kQwen3,  4096, 36, 32, 8, 128, 12288, 151936,  40960, 1e6f, 1e-6f, false,    0,  0, 0},
    Shape{"gemma3-270m",  kGemma3,  640, 18,  4, 1, 256,  2048, 262144,  32768, 1e6f, 1e-6f,  true,  512,  0, 0},
    Shape{"gemma3-1b",    kGemma3, 1152, 26,  4, 1, 256,  6912, 262144,  32768, 1e6f, 1e-6f,  true,  512,  0, 0},
    Shape{"gemma3-4b",    kGemma3, 2560, 34,  8, 4, 256, 10240, 262208, 131072, 1e6f, 1e-6f,  true, 1024,  0, 8},
};
// clang-format on

}  // namespace

std::string_view arch_name(Arch arch) {
  switch (arch) {
    case Arch::kLlama:
      return "llama";
    case Arch::kQwen2:
      return "qwen2";
    case Arch::kQwen3:
      return "qwen3";
    case Arch::kGemma3:
      return "gemma3";
  }
  return "unknown";
}

std::span<const Shape> all_presets() {
  return kPresets;
}

const Shape* find_preset(std::string_view name) {
  const auto it = std::find_if(kPresets.begin(), kPresets.end(),
                               [&](const Shape& shape) { return shape.name == name; });
  return it == kPresets.end() ? nullptr : &*it;
}

}  // namespace minfer::synth
