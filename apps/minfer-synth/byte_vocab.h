// A small vocabulary that can spell any text: byte-level BPE over the 256 bytes, some merges, and
// the special tokens of a ChatML model.
#pragma once

#include <cstdint>

#include "gguf/writer.h"

namespace minfer::synth {

/// Tokens that the vocabulary needs at least.
int64_t byte_vocab_size();

/// Adds the tokenizer.* keys of a "gpt2" tokenizer with `n_vocab` tokens; those beyond the
/// vocabulary are marked unused. `n_vocab` is at least byte_vocab_size().
void add_byte_vocab(GgufWriter& writer, int64_t n_vocab);

}  // namespace minfer::synth
