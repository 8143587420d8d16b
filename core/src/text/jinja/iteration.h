// Iteration and length of values, as Python's iter() and len().
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "text/jinja/runtime.h"

namespace minfer::jinja {

/// Walks an iterable. Elements of strings and ranges are made as they are asked for.
class Iteration {
 public:
  /// Throws when the value cannot be iterated.
  Iteration(Runtime& runtime, Value iterable);

  /// The next element, or nothing at the end. Charges a step.
  std::optional<Value> next();
  /// How many elements there are in all, where Python's len() would know.
  std::optional<size_t> known_length() const;

 private:
  Runtime* runtime_;
  Value source_;
  size_t position_ = 0;  ///< index, or byte offset in a string
};

bool is_iterable(const Value& value);

/// All elements.
std::vector<Value> to_vector(Runtime& runtime, const Value& iterable);

/// len(value); throws where Python raises TypeError.
size_t length_of(Runtime& runtime, const Value& value);

/// `item in container`.
bool contains(Runtime& runtime, const Value& container, const Value& item);

}  // namespace minfer::jinja
