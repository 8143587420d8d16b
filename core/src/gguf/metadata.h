// Reads the key-value part of a GGUF file. Pure, safe from any thread.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "gguf/cursor.h"
#include "minfer/gguf.h"

namespace minfer {

using GgufMetadata = std::vector<std::pair<std::string, GgufValue>>;

/// Reads `n_keys` keys and their values, in file order; strings are views of the file. Fails on
/// damaged, duplicate or nested values and on what exceeds GgufLimits.
Result<GgufMetadata> read_gguf_metadata(GgufCursor& in, uint64_t n_keys);

}  // namespace minfer
