// Hyper-parameters that all decoder architectures share, read from `<arch>.*` keys and checked
// against the shapes of the embedding. Errors name key or tensor and give both values.
#pragma once

#include "minfer/gguf.h"
#include "minfer/model.h"
#include "minfer/result.h"

namespace minfer {

/// Reads sizes, head counts, RoPE base and scaling, and the norm epsilon. `rope_mode` is
/// MINFER_ROPE_NEOX or MINFER_ROPE_INTERLEAVED, which GGUF leaves to the architecture.
Result<HyperParams> read_hparams(const GgufFile& file, std::string_view arch, uint32_t rope_mode);

}  // namespace minfer
