// Metadata keys of a synthetic model, as converters write them.
#pragma once

#include "gguf/writer.h"
#include "presets.h"
#include "tensor_plan.h"

namespace minfer::synth {

enum class Vocabulary { kNone, kBytes };

/// Adds general.*, <arch>.* and tokenizer.* keys.
void add_metadata(GgufWriter& writer, const Shape& shape, const Quant& quant,
                  Vocabulary vocabulary);

}  // namespace minfer::synth
