// minfer-inspect: the listings for people and programs, and what wrong use gives.
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <cmath>

#include "gguf/writer.h"
#include "man_page.h"
#include "run_tool.h"

namespace minfer {
namespace {

namespace json = boost::json;

ToolResult inspect(const std::vector<std::string>& arguments, std::string_view input = "") {
  return run_tool(MINFER_INSPECT, arguments, input);
}

/// A file with values that listings must treat with care.
std::string awkward_file() {
  GgufWriter writer;
  writer.add("general.architecture", "llama");
  writer.add("bad\x1b[31mkey", "esc\x1b]0;title\x07 \xff end");
  writer.add("long", std::string(500, 'x'));
  writer.add("nan", std::nanf(""));
  writer.add("u64", UINT64_MAX);
  std::vector<int32_t> numbers(1000);
  for (int i = 0; i < 1000; ++i) numbers[static_cast<size_t>(i)] = i - 3;
  writer.add_array("numbers", std::span<const int32_t>(numbers));
  const std::vector<std::string> words = {"one", "two\n", "\xc2\x9b"};
  writer.add_array("words", std::span<const std::string>(words));
  writer.add_tensor("blk.0.ffn_up.weight", *find_type("Q4_K"), std::vector<int64_t>{256, 3});
  writer.add_tensor("exotic", *find_type("IQ2_XXS"), std::vector<int64_t>{256});
  std::string bytes = writer.header();
  bytes.resize(bytes.size() + writer.data_bytes());
  return bytes;
}

TEST(Listing, ShowsMetadataAndTensors) {
  const WorkFolder folder;
  const ToolResult result = inspect({folder.write("a.gguf", awkward_file())});
  EXPECT_EQ(result.status, 0) << result.err;
  for (const char* text :
       {"a.gguf", "GGUF version 3, alignment 32", "metadata: 7 keys", "general.architecture",
        "\"llama\"", "array of 1000 i32", "[-3, -2, -1, 0, 1, 2, ...]", "(500 bytes)",
        "18446744073709551615", "tensors: 2, 1024 elements", "blk.0.ffn_up.weight", "Q4_K",
        "256 x 3", "IQ2_XXS", "(not supported by minfer)"}) {
    EXPECT_NE(result.out.find(text), std::string::npos) << text << " in\n" << result.out;
  }
}

TEST(Listing, LetsNoControlCharactersThrough) {
  const WorkFolder folder;
  const ToolResult result = inspect({folder.write("a.gguf", awkward_file())});
  for (const char c : result.out) {
    EXPECT_TRUE(c == '\n' || static_cast<unsigned char>(c) >= 0x20) << int{c};
  }
  EXPECT_EQ(result.out.find("\xc2\x9b"), std::string::npos) << "an 8-bit control sequence";
  EXPECT_NE(result.out.find("bad\\x1b[31mkey"), std::string::npos);
}

TEST(Listing, JsonHoldsWholeValues) {
  const WorkFolder folder;
  const ToolResult result = inspect({folder.write("a.gguf", awkward_file()), "--json"});
  ASSERT_EQ(result.status, 0) << result.err;
  const json::value value = json::parse(result.out);
  const json::object& metadata = value.at("metadata").as_object();
  EXPECT_EQ(metadata.at("general.architecture").at("value").as_string(), "llama");
  EXPECT_EQ(metadata.at("u64").at("value").as_uint64(), UINT64_MAX);
  EXPECT_EQ(metadata.at("u64").at("kind").as_string(), "u64");
  EXPECT_TRUE(metadata.at("nan").at("value").is_null());
  EXPECT_EQ(metadata.at("long").at("value").as_string().size(), 500u);
  EXPECT_EQ(metadata.at("numbers").at("value").as_array().size(), 1000u);
  EXPECT_EQ(metadata.at("numbers").at("element").as_string(), "i32");
  EXPECT_EQ(metadata.at("bad\x1b[31mkey").at("value").as_string(),
            "esc\x1b]0;title\x07 \xef\xbf\xbd end");
  const json::value& tensor = value.at("tensors").as_array().at(0);
  EXPECT_EQ(tensor.at("name").as_string(), "blk.0.ffn_up.weight");
  EXPECT_EQ(tensor.at("type").as_string(), "Q4_K");
  EXPECT_EQ(tensor.at("shape"), json::parse("[256, 3]"));
  EXPECT_EQ(tensor.at("bytes").to_number<int>(), 432);
  EXPECT_TRUE(tensor.at("supported").as_bool());
  EXPECT_FALSE(value.at("tensors").as_array().at(1).at("supported").as_bool());
}

TEST(Listing, ADamagedFileIsExplained) {
  const WorkFolder folder;
  const ToolResult result =
      inspect({folder.write("cut.gguf", awkward_file().substr(0, awkward_file().size() - 40))});
  EXPECT_EQ(result.status, 6);
  EXPECT_EQ(result.out, "");
  EXPECT_NE(result.err.find("cut.gguf: tensor 'exotic': the file is cut short"), std::string::npos)
      << result.err;
  EXPECT_NE(result.err.find("40 bytes are missing"), std::string::npos) << result.err;
}

TEST(Listing, AFullDiskIsAnError) {
  const WorkFolder folder;
  const ToolResult result =
      run_tool(MINFER_INSPECT, {folder.write("a.gguf", awkward_file())}, "", "/dev/full");
  EXPECT_EQ(result.status, 5);
  EXPECT_NE(result.err.find("standard output: cannot be written: No space left on device"),
            std::string::npos)
      << result.err;
}

TEST(Listing, WithoutStandardErrorTheStatusTells) {
  const std::string shell =
      "\"$0\" /no/such/file 2>&-; echo $?; \"$0\" /no/such/file 2>/dev/full; echo $?";
  EXPECT_EQ(run_tool("/bin/sh", {"-c", shell, MINFER_INSPECT}).out, "4\n4\n");
}

TEST(Listing, ErrorsAreJsonOnRequest) {
  const auto error = boost::json::parse(inspect({"/no/such/file", "--json"}).err).as_object();
  EXPECT_EQ(error.at("code").as_string(), "not-found");
  EXPECT_EQ(error.at("exit_status").as_int64(), 4);
}

struct WrongUse {
  std::vector<std::string> arguments;
  int status;
  std::string says;
};

TEST(Usage, WrongUseIsExplained) {
  const WorkFolder folder;
  const std::string model = folder.write("a.gguf", awkward_file());
  const WrongUse cases[] = {
      {{}, 2, "no GGUF file given"},
      {{model, "--bogus"}, 2, "unrecognised option '--bogus'"},
      {{model, "--chec"}, 2, "unrecognised option '--chec'"},
      {{model, "another.gguf"}, 2, "too many positional options"},
      {{model, "--tokenize"}, 2, "'--tokenize'"},
      {{model, "--check", "--tokenize", "x"}, 2, "only one of"},
      {{model, "--json", "--render", "x"}, 2, "--json goes with"},
      {{model, "--parse-special"}, 2, "--parse-special needs --tokenize"},
      {{model, "--template", "x"}, 2, "--template needs --render"},
      {{folder / "absent.gguf"}, 4, "absent.gguf: cannot open the file: No such file"},
      {{folder.path().string()}, 5, "is a directory"},
  };
  for (const WrongUse& wrong : cases) {
    const ToolResult result = inspect(wrong.arguments);
    EXPECT_EQ(result.status, wrong.status) << result.err;
    EXPECT_NE(result.err.find(wrong.says), std::string::npos) << result.err;
    EXPECT_EQ(result.out, "");
  }
}

TEST(Usage, HelpGoesToStandardOutput) {
  const ToolResult result = inspect({"--help"});
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.err, "");
  for (const char* option : {"--json", "--check", "--tokenize", "--parse-special", "--render",
                             "--template", "add_generation_prompt"}) {
    EXPECT_NE(result.out.find(option), std::string::npos) << option;
  }
}

TEST(Usage, EveryFlagIsInTheManual) {
  EXPECT_EQ(flags_without_manual(MINFER_INSPECT), std::vector<std::string>());
}

}  // namespace
}  // namespace minfer
