// The table of small templates: each renders, or fails, as jinja2 did when the table was made.
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <iterator>

#include "minfer/chat_template.h"

namespace minfer {
namespace {

boost::json::value load_table() {
  std::ifstream file(MINFER_SOURCE_DIR "/tests/unit/jinja/cases.json");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  return boost::json::parse(text);
}

Result<std::string> render(std::string_view source, const boost::json::object& context,
                           std::time_t now) {
  MINFER_ASSIGN(const auto parsed, ChatTemplate::parse(source));
  MINFER_ASSIGN(const auto segments, parsed->render(context, {}, now));
  return join_segments(segments);
}

TEST(JinjaCases, AgreeWithTheReference) {
  setenv("TZ", "UTC", 1);
  tzset();
  const auto table = load_table();
  const auto now = table.at("now").to_number<std::time_t>();
  const auto& cases = table.at("cases").as_array();
  ASSERT_GT(cases.size(), 1000u);
  for (const auto& item : cases) {
    const auto& test = item.as_object();
    const std::string_view source = test.at("template").as_string();
    const auto result = render(source, test.at("context").as_object(), now);
    if (const auto* expected = test.if_contains("output")) {
      ASSERT_TRUE(result) << source << "\n" << result.error().message();
      EXPECT_EQ(*result, std::string_view(expected->as_string())) << source;
    } else {
      ASSERT_FALSE(result) << source << "\nrendered: " << *result;
      EXPECT_EQ(result.error().code, ErrorCode::kTemplate) << source;
      EXPECT_NE(result.error().where.find("line "), std::string::npos) << source;
    }
  }
}

}  // namespace
}  // namespace minfer
