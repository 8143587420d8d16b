#include "host.h"

#include <fmt/format.h>

#include <charconv>

namespace minfer::app {

Result<std::unique_ptr<PluginHost>> open_host(const std::vector<std::string>& files,
                                              const GateTexts& gates) {
  PluginHost::Options options;
  for (const std::string& file : files)
    options.files.push_back(std::filesystem::absolute(file).lexically_normal());
  MINFER_ASSIGN(auto host, PluginHost::load(options));
  MINFER_TRY(host->gates().resolve(gates));
  MINFER_TRY(host->enumerate());
  return host;
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

Result<std::vector<uint32_t>> parse_numbers(std::string_view flag, std::string_view text) {
  std::vector<uint32_t> numbers;
  for (const std::string& part : split_list(text)) {
    uint32_t n = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), n);
    if (error != std::errc{} || end != part.data() + part.size())
      return fail(ErrorCode::kUsage, fmt::format("'{}' is not a number", part), std::string(flag),
                  "give numbers separated by commas, e.g. 128,512");
    numbers.push_back(n);
  }
  return numbers;
}

}  // namespace minfer::app
