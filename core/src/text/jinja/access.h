// Attributes, subscripts and slices, with jinja2's order of lookup.
#pragma once

#include <string_view>

#include "text/jinja/runtime.h"

namespace minfer::jinja {

/// value.name: an attribute or method, then an item of that name, then undefined. Throws when the
/// value itself is undefined.
Value get_attribute(Runtime& runtime, const Value& value, std::string_view name);

/// value[index]: an item, then, for a string index, an attribute, then undefined.
Value get_item(Runtime& runtime, const Value& value, const Value& index);

/// value[start:stop:step], where undefined parts are left out.
Value get_slice(Runtime& runtime, const Value& value, const Value& start, const Value& stop,
                const Value& step);

/// A slice with its bounds settled for a sequence: `count` elements from `start`, before `stop`.
struct SliceRange {
  Int start, stop, step, count;
};
SliceRange settle_slice(const Value& start, const Value& stop, const Value& step, Int length);

/// What `attribute="a.b.0"` of a filter looks up: each part in turn by get_item.
Value get_path(Runtime& runtime, const Value& value, const Value& path);

}  // namespace minfer::jinja
