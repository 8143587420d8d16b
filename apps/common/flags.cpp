#include "flags.h"

#include <fmt/format.h>

#include <algorithm>

#include "minfer/nearest.h"

namespace po = boost::program_options;

namespace minfer::app {
namespace {

constexpr const char* kSeeHelp = "see --help";

/// Every known flag as it is written: "--prompt".
std::vector<std::string> spellings(const po::options_description& known) {
  std::vector<std::string> names;
  for (const auto& option : known.options()) names.push_back("--" + option->long_name());
  return names;
}

Error unknown_flag(std::string typed, const po::options_description& known) {
  typed.resize(std::min(typed.find('='), typed.size()));
  Error error{ErrorCode::kUsage, "there is no such flag", typed, kSeeHelp};
  // The dashes that all flags share must not count as likeness.
  const size_t at = typed.find_first_not_of('-');
  if (at == std::string::npos || typed.size() - at < 2) return error;
  std::vector<std::string> names;
  for (const std::string& name : spellings(known)) names.push_back(name.substr(2));
  if (const std::string near = nearest_name(typed.substr(at), names); !near.empty())
    error.hint = fmt::format("did you mean '--{}'?", near);
  return error;
}

}  // namespace

po::value_semantic* one(const char* name) {
  return po::value<std::string>()->value_name(name);
}

po::value_semantic* several(const char* name) {
  return po::value<std::vector<std::string>>()->composing()->value_name(name);
}

Result<Flags> Flags::parse(int argc, const char* const* argv,
                           const po::options_description& known) {
  // Stray words land in a flag of their own, to be named in the message.
  constexpr const char* kStray = "stray words";
  po::options_description all;
  all.add(known).add_options()(kStray, several(""));
  po::positional_options_description positional;
  positional.add(kStray, -1);
  const auto style = po::command_line_style::unix_style & ~po::command_line_style::allow_guessing;
  Flags flags;
  try {
    po::store(
        po::command_line_parser(argc, argv).options(all).positional(positional).style(style).run(),
        flags.values_);
  } catch (const po::unknown_option& e) {
    return tl::make_unexpected(unknown_flag(e.get_option_name(), known));
  } catch (const po::multiple_occurrences& e) {
    return fail(ErrorCode::kUsage, "given more than once", e.get_option_name(), "give it once");
  } catch (const po::error& e) {
    return fail(ErrorCode::kUsage, e.what(), "", kSeeHelp);
  }
  if (flags.has(kStray))
    return fail(ErrorCode::kUsage,
                fmt::format("unexpected argument '{}'", flags.texts(kStray).front()), "",
                "text with spaces needs quotes; see --help");
  return flags;
}

bool Flags::is_list(const char* name) const {
  return values_[name].value().type() == typeid(std::vector<std::string>);
}

std::string Flags::text(const char* name) const {
  return has(name) ? values_[name].as<std::string>() : std::string();
}

std::vector<std::string> Flags::texts(const char* name) const {
  return has(name) ? values_[name].as<std::vector<std::string>>() : std::vector<std::string>();
}

void Flags::take(const char* name, std::string& out) const {
  if (has(name)) out = text(name);
}

Result<void> Flags::take(const char* name, float& out) const {
  if (!has(name)) return {};
  const std::string value = text(name);
  const char* end = value.data() + value.size();
  const auto [stop, error] = std::from_chars(value.data(), end, out);
  if (error != std::errc{} || stop != end)
    return fail(ErrorCode::kUsage, fmt::format("'{}' is not a number", value),
                fmt::format("--{}", name));
  return {};
}

tl::unexpected<Error> Flags::not_in_range(const char* name, std::string_view text,
                                          const std::string& low, const std::string& high) {
  return fail(ErrorCode::kUsage,
              fmt::format("'{}' is not an integer from {} to {}", text, low, high),
              fmt::format("--{}", name));
}

std::vector<std::string> split_list(std::string_view text) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    if (comma != 0) parts.emplace_back(text.substr(0, comma));
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
  }
  return parts;
}

}  // namespace minfer::app
