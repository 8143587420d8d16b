// docs/errors.md has a row for every code, with the exit status that apps use.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "minfer/result.h"

namespace minfer {
namespace {

TEST(ErrorsDocument, ListsEveryCodeWithItsExitStatus) {
  std::ifstream file(MINFER_SOURCE_DIR "/docs/errors.md");
  ASSERT_TRUE(file);
  std::ostringstream text;
  text << file.rdbuf();
  int rows = 0;
  for (int value = 0; value < 256; ++value) {
    const auto code = static_cast<ErrorCode>(value);
    const std::string_view name = error_code_name(code);
    if (name == "unknown") continue;
    ++rows;
    EXPECT_NE(text.str().find(fmt::format("| `{}` | {} |", name, exit_status(code))),
              std::string::npos)
        << name;
  }
  EXPECT_EQ(rows, 14);
}

}  // namespace
}  // namespace minfer
