// Renders templates from a JSON list of cases, for the comparison with jinja2.
//
// Reads {"cases": [{"template", "context", "now"?}, ...]} from standard input and writes
// {"results": [{"output", "segments"} or {"error"}, ...]} in the same order.
#include <boost/json.hpp>
#include <iostream>
#include <iterator>

#include "minfer/chat_template.h"

namespace json = boost::json;

namespace {

json::object render(const json::object& test) {
  const auto parsed =
      minfer::ChatTemplate::parse(std::string_view(test.at("template").as_string()));
  if (!parsed) return {{"error", parsed.error().message()}};
  std::optional<std::time_t> now;
  if (const auto* time = test.if_contains("now")) now = time->to_number<std::time_t>();
  const auto rendered = (*parsed)->render(test.at("context").as_object(), {}, now);
  if (!rendered) return {{"error", rendered.error().message()}};
  json::array segments;
  for (const auto& segment : *rendered) {
    segments.push_back(json::array{segment.text, segment.parse_special});
  }
  return {{"output", minfer::join_segments(*rendered)}, {"segments", std::move(segments)}};
}

}  // namespace

int main() {
  const std::string input{std::istreambuf_iterator<char>(std::cin), {}};
  json::parse_options options;
  options.max_depth = 300;
  const json::value cases = json::parse(input, {}, options);
  json::array results;
  for (const auto& test : cases.at("cases").as_array()) results.push_back(render(test.as_object()));
  std::cout << json::serialize(json::object{{"results", std::move(results)}}) << "\n";
}
