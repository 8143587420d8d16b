// Command line of minfer-inspect.
#pragma once

#include <optional>
#include <string>

#include "minfer/result.h"

namespace minfer::inspect {

struct Options {
  std::string model;
  bool json = false;
  bool check = false;
  std::optional<std::string> tokenize;  ///< file whose text to tokenize, "-" for standard input
  bool parse_special = false;
  std::optional<std::string> render;         ///< JSON file with the conversation, "-" likewise
  std::optional<std::string> template_file;  ///< instead of the model's own template
  std::optional<std::string> help;           ///< text to print instead of doing anything
};

/// Parses the command line; fails with kUsage in words.
Result<Options> parse_options(int argc, const char* const* argv);

}  // namespace minfer::inspect
