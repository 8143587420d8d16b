// Metadata and tensors of a model as text for people, and as JSON for programs. Pure.
#pragma once

#include <boost/json/object.hpp>
#include <string>

#include "minfer/gguf.h"

namespace minfer::inspect {

/// A readable listing; long strings and arrays are abbreviated, control characters escaped.
std::string text_listing(const GgufFile& file);

/// {"files": [...], "version", "alignment", "metadata": {key: {"kind", "value"}}, "tensors":
/// [...]}. Values are whole. What JSON cannot hold is replaced: NaN and infinities by null, bytes
/// that are not UTF-8 by U+FFFD.
boost::json::object json_listing(const GgufFile& file);

}  // namespace minfer::inspect
