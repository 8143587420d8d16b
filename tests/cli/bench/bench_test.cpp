// minfer-bench: tests of every kind are measured, the JSON reads back, wrong flags are named.
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json.hpp>

#include "run_tool.h"

namespace minfer {
namespace {

class Bench : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new WorkFolder();
    // Random tokens need no vocabulary.
    const ToolResult made = run_tool(
        MINFER_SYNTH, {"--preset", "tiny", "--quant", "q4_k_m", "--vocab", "none", "-o", model()});
    ASSERT_EQ(made.status, 0) << made.err;
  }
  static void TearDownTestSuite() {
    delete folder_;
    folder_ = nullptr;
  }
  static std::string model() { return *folder_ / "tiny.gguf"; }

  static ToolResult bench(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"-m", model(), "--device", "cpu"});
    return run_tool(MINFER_BENCH, arguments);
  }
  static boost::json::object bench_json(std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--json", "--quiet"});
    const ToolResult result = bench(std::move(arguments));
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_EQ(result.err, "");
    boost::system::error_code failed;
    auto value = boost::json::parse(result.out, failed);
    EXPECT_FALSE(failed) << result.out;
    return value.is_object() ? value.get_object() : boost::json::object();
  }
  static std::vector<std::string> names(const boost::json::object& root) {
    std::vector<std::string> out;
    for (const auto& test : root.at("tests").as_array())
      out.emplace_back(test.at("test").as_string());
    return out;
  }

 private:
  static inline WorkFolder* folder_ = nullptr;
};

TEST_F(Bench, ListsMultiply) {
  const auto root = bench_json({"-p", "7,33", "-n", "5", "-d", "0,9", "-b", "1,3", "-r", "1"});
  EXPECT_EQ(names(root), (std::vector<std::string>{"pp7", "pp33", "tg5", "tg5 x3", "pp7 @ d9",
                                                   "pp33 @ d9", "tg5 @ d9", "tg5 @ d9 x3"}));
}

TEST_F(Bench, EveryTestHasSamplesMedianRangeAndKernels) {
  const auto root = bench_json({"-p", "1,13,130", "-n", "3", "--pg", "11+2", "-r", "4"});
  EXPECT_EQ(root.at("repetitions").as_int64(), 4);
  EXPECT_GT(root.at("load_seconds").as_double(), 0);
  EXPECT_GT(root.at("model_size").to_number<int64_t>(), 100'000);
  EXPECT_EQ(root.at("model_type").as_string(), "qwen2");
  ASSERT_EQ(root.at("tests").as_array().size(), 5u);
  for (const auto& test : root.at("tests").as_array()) {
    std::vector<double> samples;
    for (const auto& sample : test.at("samples_ts").as_array())
      samples.push_back(sample.to_number<double>());
    ASSERT_EQ(samples.size(), 4u);
    std::sort(samples.begin(), samples.end());
    EXPECT_GT(samples.front(), 0);
    EXPECT_DOUBLE_EQ(test.at("min_ts").to_number<double>(), samples.front());
    EXPECT_DOUBLE_EQ(test.at("max_ts").to_number<double>(), samples.back());
    EXPECT_DOUBLE_EQ(test.at("median_ts").to_number<double>(), 0.5 * (samples[1] + samples[2]));
    EXPECT_EQ(test.at("devices").as_array().at(0).as_string(), "cpu:0");
    const std::string kernels = boost::json::serialize(test.at("kernels"));
    EXPECT_NE(kernels.find("matmul"), std::string::npos) << kernels;
    EXPECT_NE(kernels.find("attention"), std::string::npos) << kernels;
  }
}

TEST_F(Bench, LengthsBeyondAStepAreFedInParts) {
  EXPECT_EQ(names(bench_json({"-p", "101", "-n", "0", "-r", "1", "--ubatch", "16"})),
            std::vector<std::string>{"pp101"});
}

TEST_F(Bench, APairComesAlone) {
  EXPECT_EQ(names(bench_json({"--pg", "9+4", "-r", "1"})), std::vector<std::string>{"pp9+tg4"});
}

TEST_F(Bench, TableNamesModelTestsAndKernels) {
  const ToolResult result = bench({"-p", "9", "-n", "2", "-r", "2"});
  EXPECT_EQ(result.status, 0);
  for (const char* part :
       {"model: ", "qwen2", "2 repetitions", "t/s median", "pp9", "tg2", "cpu:0", "kernels:"})
    EXPECT_NE(result.out.find(part), std::string::npos) << part << "\n" << result.out;
  EXPECT_NE(result.err.find("minfer-bench: pp9: "), std::string::npos) << result.err;
}

TEST_F(Bench, GatesChangeTheKernelsThatRan) {
  const auto root =
      bench_json({"-p", "9", "-n", "0", "-r", "1", "--gate", "cpu:MINFER_CPU_ISA=scalar"});
  EXPECT_NE(boost::json::serialize(root.at("tests")).find("scalar"), std::string::npos);
}

TEST_F(Bench, HelpAndVersion) {
  const ToolResult help = run_tool(MINFER_BENCH, {"--help"});
  EXPECT_EQ(help.status, 0);
  for (const char* flag : {"--model", "--prompt", "--gen", "--pg", "--depth", "--batch",
                           "--repetitions", "--json", "--threads", "--device"})
    EXPECT_NE(help.out.find(flag), std::string::npos) << flag;
  EXPECT_TRUE(run_tool(MINFER_BENCH, {"--version"}).out.starts_with("minfer "));
}

struct WrongBench {
  const char* name;
  std::vector<std::string> arguments;
  int status;
  const char* message;
};
void PrintTo(const WrongBench& wrong, std::ostream* out) {
  *out << wrong.name;
}

const WrongBench kWrong[] = {
    {"UnknownFlag", {"--promt", "3"}, 2, "did you mean '--prompt'?"},
    {"ListText", {"-p", "3,x"}, 2, "--prompt: 'x' is not an integer"},
    {"ListNegative", {"-p", "-3"}, 2, "--prompt: '-3'"},
    {"ListEmpty", {"-n", ","}, 2, "--gen: the list is empty"},
    {"Beyond", {"-p", "99999999999"}, 2, "--prompt: '99999999999'"},
    {"SumBeyond", {"-p", "16777216", "-d", "16777216"}, 2, "33554432 positions"},
    {"Nothing", {"-p", "0", "-n", "0"}, 2, "nothing to measure"},
    {"PairShape", {"--pg", "512,128"}, 2, "'512' is not PROMPT+GEN"},
    {"PairZero", {"--pg", "0+5"}, 2, "--pg: '0'"},
    {"BatchZero", {"-b", "0"}, 2, "--batch: '0'"},
    {"RepetitionsZero", {"-r", "0"}, 2, "--repetitions: '0'"},
    {"RepetitionsNegative", {"-r", "-1"}, 2, "--repetitions: '-1'"},
    {"UbatchZero", {"--ubatch", "0"}, 2, "--ubatch: '0'"},
    {"StrayWord", {"512"}, 2, "unexpected argument '512'"},
    {"GateValue", {"--gate", "cpu:MINFER_CPU_ISA=mmx"}, 2, "'mmx'"},
};

class WrongBenchFlag : public Bench, public testing::WithParamInterface<WrongBench> {};

TEST_P(WrongBenchFlag, GetsItsMessage) {
  const ToolResult result = bench(GetParam().arguments);
  EXPECT_EQ(result.status, GetParam().status) << result.err;
  EXPECT_EQ(result.out, "");
  EXPECT_NE(result.err.find(GetParam().message), std::string::npos) << result.err;
}

const auto bench_name = [](const auto& test) { return std::string(test.param.name); };
INSTANTIATE_TEST_SUITE_P(Table, WrongBenchFlag, testing::ValuesIn(kWrong), bench_name);

TEST_F(Bench, NoModelAndAbsentModelAndDevice) {
  const ToolResult none = run_tool(MINFER_BENCH, {"-p", "3"});
  EXPECT_EQ(none.status, 2);
  EXPECT_NE(none.err.find("no model"), std::string::npos);
  const ToolResult absent = run_tool(MINFER_BENCH, {"-m", "nope.gguf", "--json"});
  EXPECT_EQ(absent.status, 4);
  EXPECT_EQ(boost::json::parse(absent.err).as_object().at("code").as_string(), "not-found");
  const ToolResult device = run_tool(MINFER_BENCH, {"-m", model(), "--device", "vulkan"});
  EXPECT_EQ(device.status, 4);
  EXPECT_NE(device.err.find("no plugin offers 'vulkan'"), std::string::npos) << device.err;
}

}  // namespace
}  // namespace minfer
