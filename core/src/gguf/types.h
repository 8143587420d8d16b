// What the reader knows about tensor types beyond their sizes. Pure look-ups, safe from any thread.
#pragma once

#include <cstdint>
#include <string>

namespace minfer {

/// Whether ggml withdrew the type numbered `id`: files that hold it cannot be read by anyone today.
bool is_removed_type(uint32_t id);

/// What to do about a file with the removed type `id`.
std::string removed_type_hint(uint32_t id);

/// Names of the types that minfer computes with, "F32, F16, ...".
std::string supported_type_names();

}  // namespace minfer
