// minfer-run on a tiny random model whose vocabulary can spell any text, so that no case needs a
// network or a large file.
#pragma once

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <string>
#include <vector>

#include "run_tool.h"

namespace minfer {

class TinyModel : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new WorkFolder();
    make("tiny", "bytes", model());
  }
  static void TearDownTestSuite() {
    delete folder_;
    folder_ = nullptr;
  }

  static void make(const std::string& preset, const std::string& vocab, const std::string& path) {
    const ToolResult made = run_tool(
        MINFER_SYNTH, {"--preset", preset, "--quant", "q8_0", "--vocab", vocab, "-o", path});
    ASSERT_EQ(made.status, 0) << made.err;
  }

  static const WorkFolder& folder() { return *folder_; }
  static std::string model() { return *folder_ / "tiny.gguf"; }

  /// The arguments with the model, on the CPU also where there is a better device.
  static std::vector<std::string> with_model(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"--model", model(), "--device", "cpu"});
    return arguments;
  }
  /// minfer-run with the model and these arguments.
  static ToolResult run(std::vector<std::string> arguments, std::string_view input = "") {
    arguments = with_model(std::move(arguments));
    return run_tool(MINFER_RUN, arguments, input);
  }
  /// The same with --json, parsed.
  static boost::json::object run_json(std::vector<std::string> arguments,
                                      std::string_view input = "") {
    arguments.emplace_back("--json");
    const ToolResult result = run(std::move(arguments), input);
    EXPECT_EQ(result.status, 0) << result.err;
    boost::system::error_code failed;
    auto value = boost::json::parse(result.out, failed);
    EXPECT_FALSE(failed) << result.out;
    return value.is_object() ? value.get_object() : boost::json::object();
  }

 private:
  static inline WorkFolder* folder_ = nullptr;
};

inline std::string text_of(const boost::json::object& object, const char* key) {
  const auto* value = object.if_contains(key);
  return value && value->is_string() ? std::string(value->get_string()) : std::string();
}

inline int64_t number_of(const boost::json::object& object, const char* key) {
  const auto* value = object.if_contains(key);
  return value && value->is_number() ? value->to_number<int64_t>() : -1;
}

}  // namespace minfer
