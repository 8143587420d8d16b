// Python's two languages of format strings: "%s" % value and "{}".format(value).
#pragma once

#include "text/jinja/runtime.h"

namespace minfer::jinja {

/// `format % arguments`: a tuple gives one value per directive, a dict serves %(name)s, anything
/// else is the one value.
Value format_percent(Runtime& runtime, const Text& format, const Value& arguments);

/// format.format(*args, **kwargs).
Value format_braces(Runtime& runtime, const Text& format, const CallArgs& args);

/// format(value, spec) with the mini-language
/// [[fill]align][sign][#][0][width][,][.precision][type].
void append_formatted(Runtime& runtime, TextBuilder& out, const Value& value, const Text& spec);

/// How a number is to be written.
struct NumberStyle {
  char sign = '-';         ///< '+', ' ' or '-': what stands before numbers that are not negative
  bool alternate = false;  ///< 0x and the like; floats keep their point
  char grouping = 0;       ///< ',' or '_' between thousands
  int precision = -1;      ///< digits after the point; -1 for the type's default
  char type = 0;           ///< d b o x X e E f F g G %; 0 for the value's own form
};

/// A number in that style: its sign and prefix, then its digits, so that zeros can go in between.
struct NumberParts {
  std::string prefix, digits;
};
NumberParts style_number(const Value& number, const NumberStyle& style);

}  // namespace minfer::jinja
