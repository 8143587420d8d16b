// minfer-verify: an unharmed model passes, a planted fault is found at its node.
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <string>
#include <vector>

#include "man_page.h"
#include "minfer/gguf.h"
#include "run_tool.h"

namespace minfer {
namespace {

class Verify : public testing::Test {
 protected:
  void SetUp() override {
    const ToolResult made = run_tool(
        MINFER_SYNTH, {"--preset", "tiny", "--quant", "q4_k_m", "--vocab", "bytes", "-o", model()});
    ASSERT_EQ(made.status, 0) << made.err;
  }

  std::string model() const { return folder_ / "good.gguf"; }

  /// A copy of the model in which the byte at `offset` of a tensor's data is changed by `mask`.
  std::string harmed(std::string_view tensor, size_t offset, uint8_t mask) const {
    std::string bytes = read_file(model());
    const auto file = GgufFile::open(model());
    EXPECT_TRUE(file);
    const GgufTensor* t = (*file)->tensor(tensor);
    EXPECT_NE(t, nullptr);
    bytes[t->offset + offset] = static_cast<char>(bytes[t->offset + offset] ^ mask);
    return folder_.write("harmed.gguf", bytes);
  }

  static ToolResult verify(std::vector<std::string> arguments) {
    // Another backend can be put in the candidate's place; the reference stays the CPU.
    const char* device = std::getenv("MINFER_TEST_DEVICE");
    arguments.insert(arguments.begin(),
                     {"--quiet", "--device", device ? device : "cpu", "--tokens", "6"});
    return run_tool(MINFER_VERIFY, arguments);
  }

  static boost::json::object parsed(const std::string& text) {
    boost::system::error_code failed;
    const auto value = boost::json::parse(text, failed);
    EXPECT_FALSE(failed) << text;
    return value.is_object() ? value.get_object() : boost::json::object();
  }

  /// The first difference of the parity gate.
  static boost::json::object first_difference(const std::string& json) {
    const auto root = parsed(json);
    if (!root.contains("gates")) return {};
    const auto& first = root.at("gates").at(0).at("first_difference");
    return first.is_object() ? first.get_object() : boost::json::object();
  }

  WorkFolder folder_;
};

TEST_F(Verify, SoundModelHoldsEveryGate) {
  const ToolResult result = verify({"--model", model(), "--json"});
  EXPECT_EQ(result.status, 0) << result.out << result.err;
  const auto root = parsed(result.out);
  ASSERT_TRUE(root.contains("gates"));
  EXPECT_TRUE(root.at("holds").as_bool());
  std::string names;
  for (const auto& gate : root.at("gates").as_array())
    names += std::string(gate.at("gate").as_string()) + " ";
  EXPECT_EQ(names, "parity greedy replay batch ");
  EXPECT_GT(root.at("gates").at(0).at("comparisons").as_array().size(), 50u);
}

TEST_F(Verify, TextNamesEveryGate) {
  const ToolResult result = verify({"--model", model()});
  EXPECT_EQ(result.status, 0) << result.err;
  for (const char* part : {"parity   pass", "greedy   pass", "replay   pass", "batch    pass"})
    EXPECT_NE(result.out.find(part), std::string::npos) << result.out;
}

std::string prose() {
  std::string text;
  for (int i = 0; i < 40; ++i)
    text += "Boat " + std::to_string(i * 7919 % 1000) + " came in with the tide. ";
  return text;
}

TEST_F(Verify, TextIsAsProbableOnBothSides) {
  const auto text = folder_.write("text.txt", prose());
  const ToolResult result = verify({"--model", model(), "--check", "text", "--text", text,
                                    "--text-tokens", "300", "--text-window", "128", "--json"});
  EXPECT_EQ(result.status, 0) << result.out << result.err;
  const auto root = parsed(result.out);
  ASSERT_TRUE(root.contains("gates"));
  const auto& gate = root.at("gates").at(0).as_object();
  EXPECT_EQ(gate.at("rows").to_number<int>(), 300);
  EXPECT_LT(gate.at("mean_log_probability").to_number<double>(), 0.0);
}

TEST_F(Verify, TextIsLessProbableToAHarmedModel) {
  const auto text = folder_.write("text.txt", prose());
  // The exponent of one weight of the last norm.
  const ToolResult result = verify({"--model", harmed("output_norm.weight", 3, 0x40), "--check",
                                    "text", "--text", text, "--reference-model", model()});
  EXPECT_EQ(result.status, 1) << result.out << result.err;
  EXPECT_NE(result.out.find("text     FAIL"), std::string::npos) << result.out;
}

TEST_F(Verify, TextThatCannotBeScoredIsAnError) {
  const auto empty = folder_.write("empty.txt", "");
  const std::vector<std::vector<std::string>> wrong = {{"--check", "text"},
                                                       {"--text", empty},
                                                       {"--text", ""},
                                                       {"--text", empty, "--text-window", "1"},
                                                       {"--text", empty, "--text-tolerance", "-1"}};
  for (std::vector<std::string> arguments : wrong) {
    arguments.insert(arguments.begin(), {"--model", model()});
    if (arguments[2] == "--text") arguments.insert(arguments.end(), {"--check", "text"});
    const ToolResult result = verify(arguments);
    EXPECT_GT(result.status, 1) << arguments.back();
    EXPECT_NE(result.err.find("--text"), std::string::npos) << result.err;
  }
}

TEST_F(Verify, TextThatIsNotThereIsNamed) {
  const ToolResult result =
      verify({"--model", model(), "--check", "text", "--text", folder_ / "nowhere.txt"});
  EXPECT_GT(result.status, 1);
  EXPECT_NE(result.err.find("nowhere.txt"), std::string::npos) << result.err;
}

// One nibble of one weight, in several matrices: the node and the row are named, and no other
// node differs.
TEST_F(Verify, WrongNibbleIsFoundAtItsNode) {
  constexpr size_t kBlock = 144, kQuants = 16;  // Q4_K: a block of 256 weights, where nibbles start
  for (const auto& [tensor, row] :
       {std::pair{"blk.1.ffn_up.weight", 17}, std::pair{"blk.0.attn_q.weight", 3},
        std::pair{"blk.0.attn_output.weight", 200}}) {
    SCOPED_TRACE(tensor);
    const std::string bad = harmed(tensor, static_cast<size_t>(row) * kBlock + kQuants + 21, 0x08);
    const ToolResult result =
        verify({"--model", bad, "--reference-model", model(), "--check", "parity", "--json"});
    EXPECT_EQ(result.status, 1) << result.err;
    const auto first = first_difference(result.out);
    ASSERT_TRUE(first.contains("node"));
    EXPECT_EQ(first.at("given").as_string(), "probe");
    EXPECT_NE(std::string(first.at("weight").as_string()).find(tensor), std::string::npos)
        << first.at("node").as_string();
    EXPECT_EQ(first.at("row").as_int64(), row);
    const auto root = parsed(result.out);
    for (const auto& finding : root.at("gates").at(0).at("comparisons").as_array()) {
      if (finding.at("holds").as_bool()) continue;
      EXPECT_EQ(finding.at("node").as_string(), first.at("node").as_string());
    }
  }
}

TEST_F(Verify, DumpOfOneRunIsComparedWithAnother) {
  const std::string dump = folder_ / "steps.gguf";
  const ToolResult dumped = verify({"--model", model(), "--dump", dump, "--threads", "1"});
  ASSERT_EQ(dumped.status, 0) << dumped.err;
  const ToolResult same = verify({"--model", model(), "--against", dump});
  EXPECT_EQ(same.status, 0) << same.out << same.err;
  const std::string bad = harmed("blk.0.ffn_gate.weight", 16 + 5, 0x80);
  const ToolResult other = verify({"--model", bad, "--against", dump, "--json"});
  EXPECT_EQ(other.status, 1);
  const auto first = first_difference(other.out);
  ASSERT_TRUE(first.contains("weight")) << other.err;
  EXPECT_NE(std::string(first.at("weight").as_string()).find("blk.0.ffn_gate.weight"),
            std::string::npos);
  const ToolResult foreign = verify({"--model", model(), "--against", model()});
  EXPECT_EQ(foreign.status, 6) << foreign.err;
}

TEST_F(Verify, WrongFlagsAreNamed) {
  EXPECT_EQ(verify({}).status, 2);
  const ToolResult unknown = verify({"--model", model(), "--check", "party"});
  EXPECT_EQ(unknown.status, 2);
  EXPECT_NE(unknown.err.find("party"), std::string::npos);
  EXPECT_EQ(verify({"--model", model(), "--steps", "0"}).status, 2);
  EXPECT_EQ(verify({"--model", model(), "--dump", "a", "--against", "b"}).status, 2);
  EXPECT_EQ(verify({"--help"}).status, 0);
}

TEST_F(Verify, EveryFlagIsInTheManual) {
  EXPECT_EQ(flags_without_manual(MINFER_VERIFY), std::vector<std::string>());
}

}  // namespace
}  // namespace minfer
