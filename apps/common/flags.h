// Command lines: every program reads its flags here, so that a wrong one gets the same kind of
// message everywhere.
//
// Values stay text until they are taken with a type and a range: Boost's own conversions accept
// "-1" for an unsigned number. Abbreviated flags are errors, as a script must not change its
// meaning when a flag is added. A Flags object is read-only; safe from any thread.
#pragma once

#include <boost/program_options.hpp>
#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "minfer/result.h"

namespace minfer::app {

/// A flag that takes one text, shown as `name` in the help.
boost::program_options::value_semantic* one(const char* name);
/// A flag that may be given more than once.
boost::program_options::value_semantic* several(const char* name);

class Flags {
 public:
  /// `known`: flags without a value, and flags declared with one() or several(). kUsage names the
  /// flag and, where it is unknown, the nearest one.
  static Result<Flags> parse(int argc, const char* const* argv,
                             const boost::program_options::options_description& known);

  bool has(const char* name) const { return values_.count(name) > 0; }
  /// Whether a flag that was given is declared with several().
  bool is_list(const char* name) const;
  /// Value of a flag declared with one(); empty when it was not given.
  std::string text(const char* name) const;
  /// Values of a flag declared with several(), in order.
  std::vector<std::string> texts(const char* name) const;

  // The following leave `out` alone when the flag was not given, and fail with kUsage naming flag,
  // value and range.
  void take(const char* name, std::string& out) const;
  Result<void> take(const char* name, float& out) const;
  template <class T>
  Result<void> take(const char* name, T& out, T low, T high) const {
    if (!has(name)) return {};
    MINFER_ASSIGN(out, integer(name, text(name), low, high));
    return {};
  }

  /// `text` as an integer from `low` to `high`; kUsage names the flag on anything else.
  template <class T>
  static Result<T> integer(const char* name, std::string_view text, T low, T high) {
    T value = 0;
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    if (error != std::errc{} || stop != end || value < low || value > high)
      return not_in_range(name, text, std::to_string(low), std::to_string(high));
    return value;
  }

 private:
  static tl::unexpected<Error> not_in_range(const char* name, std::string_view text,
                                            const std::string& low, const std::string& high);

  boost::program_options::variables_map values_;
};

/// "a,b,c" into its parts; empty parts are dropped.
std::vector<std::string> split_list(std::string_view text);

}  // namespace minfer::app
