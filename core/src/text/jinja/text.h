// Text with provenance: bytes that remember whether the template or the context wrote them.
//
// A control token may only be recognised where the template itself put it, so every string in the
// engine carries runs of origin, and every operation on strings keeps them. Plain value, no
// locking.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace minfer::jinja {

/// Who wrote a piece of text.
enum class Origin : uint8_t {
  kTemplate,  ///< literal text, literals in expressions, bos_token and eos_token
  kContext,   ///< messages, tools and everything else the caller passed in
};

/// What a value computed from both counts as: context wins.
constexpr Origin combine(Origin a, Origin b) {
  return a == Origin::kContext ? a : b;
}

/// Bytes up to `end` (from the previous run's end) that share an origin.
struct Run {
  size_t end;
  Origin origin;
};

/// UTF-8 bytes and their runs. Adjacent runs differ in origin; an empty text has none.
class Text {
 public:
  Text() = default;
  Text(std::string_view bytes, Origin origin) { append(bytes, origin); }

  std::string_view view() const { return bytes_; }
  size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }
  const std::vector<Run>& runs() const { return runs_; }

  /// Origin of the byte at `position`, which must lie inside.
  Origin origin_at(size_t position) const;
  /// kContext when any byte came from the context.
  Origin overall_origin() const;

  void append(std::string_view bytes, Origin origin);
  void append(const Text& other) { append(other, 0, other.size()); }
  /// Appends bytes [from, to) of `other`.
  void append(const Text& other, size_t from, size_t to);
  Text substr(size_t from, size_t to) const;
  void reserve(size_t bytes) { bytes_.reserve(bytes); }

 private:
  void extend_run(Origin origin);

  std::string bytes_;
  std::vector<Run> runs_;
};

}  // namespace minfer::jinja
