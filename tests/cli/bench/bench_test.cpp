// minfer-bench: tests of every kind are measured, the JSON reads back against its schema, what fell
// back is marked, wrong flags are named.
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json.hpp>

#include "json_schema.h"
#include "man_page.h"
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
  static const WorkFolder& folder() { return *folder_; }
  static std::string model() { return *folder_ / "tiny.gguf"; }

  static ToolResult bench(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"-m", model(), "--device", "cpu", "--no-ceilings"});
    return run_tool(MINFER_BENCH, arguments);
  }
  static boost::json::object bench_json(std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--json", "--quiet"});
    return parsed(bench(std::move(arguments)));
  }
  /// The output as JSON, which must fit the schema in docs.
  static boost::json::object parsed(const ToolResult& result) {
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_EQ(result.err, "");
    boost::system::error_code failed;
    auto value = boost::json::parse(result.out, failed);
    EXPECT_FALSE(failed) << result.out;
    const JsonSchema schema(
        boost::json::parse(read_file(MINFER_SOURCE_DIR "/docs/schema/minfer-bench.schema.json")));
    for (const std::string& fault : schema.faults(value)) ADD_FAILURE() << fault;
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

/// The figures of a test follow from its samples.
void expect_figures_of_samples(const boost::json::value& test, size_t repetitions) {
  std::vector<double> samples;
  double sum = 0;
  for (const auto& sample : test.at("samples_ts").as_array())
    samples.push_back(sample.to_number<double>());
  ASSERT_EQ(samples.size(), repetitions);
  ASSERT_EQ(test.at("samples_ns").as_array().size(), repetitions);
  const auto tokens = test.at("n_tokens").to_number<double>();
  for (size_t i = 0; i < repetitions; ++i) {
    sum += samples[i];
    const auto ns = test.at("samples_ns").as_array()[i].to_number<double>();
    EXPECT_NEAR(samples[i] * ns / 1e9, tokens, 1e-3 * tokens);
  }
  std::sort(samples.begin(), samples.end());
  EXPECT_GT(samples.front(), 0);
  EXPECT_DOUBLE_EQ(test.at("min_ts").to_number<double>(), samples.front());
  EXPECT_DOUBLE_EQ(test.at("max_ts").to_number<double>(), samples.back());
  EXPECT_DOUBLE_EQ(test.at("median_ts").to_number<double>(),
                   0.5 * (samples[repetitions / 2 - 1] + samples[repetitions / 2]));
  EXPECT_NEAR(test.at("avg_ts").to_number<double>(), sum / static_cast<double>(repetitions),
              1e-9 * sum);
}

TEST_F(Bench, EveryTestHasFiguresAndKernels) {
  const auto root =
      bench_json({"-p", "1,13,130", "-n", "3", "--pg", "11+2", "--mixed", "21+2", "-r", "4"});
  ASSERT_EQ(names(root),
            (std::vector<std::string>{"pp1", "pp13", "pp130", "tg3", "pp11+tg2", "mix21+2"}));
  const int64_t tokens[] = {1, 13, 130, 3, 13, 23};
  size_t i = 0;
  for (const auto& test : root.at("tests").as_array()) {
    EXPECT_EQ(test.at("n_tokens").as_int64(), tokens[i++]);
    expect_figures_of_samples(test, 4);
    EXPECT_EQ(test.at("first_token_ns").as_array().size(), 4u);
    EXPECT_EQ(test.at("devices").as_array().at(0).as_string(), "cpu:0");
    EXPECT_TRUE(test.at("fallbacks").as_array().empty());
    EXPECT_TRUE(test.at("model_type").as_string().starts_with("qwen2 "));
    EXPECT_GT(test.at("model_size").to_number<int64_t>(), 100'000);
    EXPECT_GT(test.at("load_ns").to_number<int64_t>(), 0);
    EXPECT_GT(test.at("host_peak_bytes").to_number<int64_t>(), 1'000'000);
    EXPECT_GE(test.at("device_peak_bytes").to_number<int64_t>(),
              test.at("model_held_size").to_number<int64_t>());
    const std::string kernels = boost::json::serialize(test.at("kernels"));
    EXPECT_NE(kernels.find("matmul"), std::string::npos) << kernels;
    EXPECT_NE(kernels.find("attention"), std::string::npos) << kernels;
  }
}

// What a step reads and computes follows from the model alone: twice the tokens in one step cost
// twice the arithmetic of the matrices and no further weight.
TEST_F(Bench, WorkGrowsAsTheModelSays) {
  const auto root = bench_json({"-p", "64,128", "-n", "1,2", "-b", "1,2", "-r", "1"});
  const auto& tests = root.at("tests").as_array();
  const auto field = [&](size_t i, const char* name) {
    return tests[i].at(name).to_number<double>();
  };
  EXPECT_GT(field(1, "run_flops"), 2 * field(0, "run_flops"));
  EXPECT_LT(field(1, "run_flops"), 2.5 * field(0, "run_flops"));
  EXPECT_LT(field(1, "run_bytes"), 1.2 * field(0, "run_bytes"));
  EXPECT_GT(field(3, "run_bytes"), 2 * field(2, "run_bytes")) << "two steps read all twice";
  EXPECT_LT(field(4, "run_bytes"), 1.1 * field(2, "run_bytes")) << "one step of two sequences";
  EXPECT_GT(field(2, "run_bytes"), 0.5 * field(2, "model_size"));
  EXPECT_LT(field(2, "run_bytes"), 1.1 * field(2, "model_size"));
}

TEST_F(Bench, CeilingsAreMeasuredInTheSameRun) {
  const auto root = parsed(run_tool(MINFER_BENCH, {"-m", model(), "--device", "cpu", "-p", "9",
                                                   "-n", "0", "-r", "1", "--json", "--quiet"}));
  const auto& test = root.at("tests").as_array().at(0);
  EXPECT_GT(test.at("copy_ceiling").to_number<double>(), 1e7) << test.at("copy_ceiling_how");
  EXPECT_GT(test.at("product_ceiling").to_number<double>(), 1e7) << test.at("product_ceiling_how");
  EXPECT_GT(test.at("product_share").to_number<double>(), 0);
  EXPECT_NE(test.at("product_ceiling_how").as_string().find("matmul"), std::string::npos);
}

TEST_F(Bench, ModelsAndPlacesMultiply) {
  const auto root =
      bench_json({"-m", model(), "--device", "cpu:0", "-p", "3", "-n", "0", "-r", "1"});
  EXPECT_EQ(names(root), (std::vector<std::string>(4, "pp3")));
  EXPECT_EQ(root.at("tests").as_array().at(1).at("devices_asked").as_string(), "cpu:0");
}

TEST_F(Bench, ASlowerKernelThanTheBestIsMarked) {
  const std::vector<std::string> scalar = {"-p", "9", "-n",     "0",
                                           "-r", "1", "--gate", "cpu:MINFER_CPU_ISA=scalar"};
  const auto root = bench_json(scalar);
  const auto& test = root.at("tests").as_array().at(0);
  EXPECT_NE(boost::json::serialize(test.at("kernels")).find("scalar"), std::string::npos);
  const std::string best =
      boost::json::serialize(bench_json({"-p", "9", "-n", "0", "-r", "1"}).at("tests"));
  if (best.find("/scalar") != std::string::npos)
    GTEST_SKIP() << "this processor has no faster kernels";
  EXPECT_NE(boost::json::serialize(test.at("fallbacks")).find("MINFER_CPU_ISA"), std::string::npos);
  const ToolResult table = bench(scalar);
  EXPECT_NE(table.out.find("cpu:0 *"), std::string::npos) << table.out;
  EXPECT_NE(table.out.find("* pp9 on cpu:0: "), std::string::npos) << table.out;
}

TEST_F(Bench, ADeviceThatTakesLessThanAskedIsMarked) {
  const std::vector<std::string> common = {
      "-m", model(), "--plugin", MINFER_PROXY, "--device", "proxy,cpu",     "-p",    "9",
      "-n", "0",     "-r",       "1",          "--quiet",  "--no-ceilings", "--json"};
  const auto whole = parsed(run_tool(MINFER_BENCH, common)).at("tests").as_array().at(0);
  EXPECT_EQ(boost::json::serialize(whole.at("devices")), "[\"proxy:0\"]");
  EXPECT_TRUE(whole.at("fallbacks").as_array().empty());
  std::vector<std::string> refusing = common;
  refusing.insert(refusing.end(), {"--gate", "MINFER_PROXY_REFUSE=1"});
  const auto part = parsed(run_tool(MINFER_BENCH, refusing)).at("tests").as_array().at(0);
  EXPECT_EQ(boost::json::serialize(part.at("devices")), "[\"proxy:0\",\"cpu:0\"]");
  EXPECT_EQ(part.at("backends").as_string(), "proxy,cpu");
  ASSERT_EQ(part.at("fallbacks").as_array().size(), 1u);
  const std::string note(part.at("fallbacks").as_array().at(0).as_string());
  EXPECT_NE(note.find("are not on proxy:0"), std::string::npos) << note;
  EXPECT_NE(note.find("no attention here"), std::string::npos) << note;
}

TEST_F(Bench, CsvHasALineForEachTestAndTheFieldsOfJson) {
  const ToolResult result = bench({"-p", "3", "-n", "2", "-r", "2", "-o", "csv", "--quiet"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 3);
  for (const char* field : {"model_filename,", ",test,", ",n_prompt,", ",avg_ts,", ",stddev_ts,"})
    EXPECT_NE(result.out.find(field), std::string::npos) << field;
  EXPECT_NE(result.out.find("\"tg2\""), std::string::npos);
}

TEST_F(Bench, MarkdownHasTheColumnsOfTheTable) {
  const ToolResult result = bench({"-p", "3", "-n", "0", "-r", "2", "-o", "md", "--quiet"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_TRUE(result.out.starts_with("| model")) << result.out;
  EXPECT_NE(result.out.find("| ---"), std::string::npos);
  EXPECT_NE(result.out.find("| pp3 "), std::string::npos);
}

TEST_F(Bench, PlotDrawsALineForEachKindOfTest) {
  const std::string file = folder() / "plot.svg";
  const ToolResult result =
      bench({"-p", "0", "-n", "2,3", "-b", "1,2", "-r", "2", "--quiet", "--plot", file});
  EXPECT_EQ(result.status, 0) << result.err;
  const std::string svg = read_file(file);
  EXPECT_TRUE(svg.starts_with("<svg ")) << svg;
  EXPECT_TRUE(svg.ends_with("</svg>\n")) << svg;
  for (const char* part : {"sequences together", "tg2 on cpu:0", "tg3 on cpu:0", "tokens/s"})
    EXPECT_NE(svg.find(part), std::string::npos) << part;
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
  for (const char* part : {"model", "qwen2", "t/s", "median", "pp9", "tg2", "cpu:0", "kernels on",
                           "loaded in", "peak memory"})
    EXPECT_NE(result.out.find(part), std::string::npos) << part << "\n" << result.out;
  EXPECT_NE(result.err.find("minfer-bench: pp9: "), std::string::npos) << result.err;
}

TEST_F(Bench, HelpAndVersion) {
  const ToolResult help = run_tool(MINFER_BENCH, {"--help"});
  EXPECT_EQ(help.status, 0);
  for (const char* flag :
       {"--model", "--prompt", "--gen", "--pg", "--depth", "--batch", "--repetitions", "--json",
        "--threads", "--device", "--mixed", "--output", "--plot"})
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
    {"MixedShape", {"--mixed", "5"}, 2, "'5' is not PROMPT+SEQUENCES"},
    {"MixedNoRoom", {"--mixed", "5+16", "--ubatch", "16"}, 2, "leaves no room"},
    {"Format", {"-o", "xml"}, 2, "there is no format 'xml'"},
    {"PlotNowhere", {"-n", "1", "--plot", "/nowhere/at/all.svg"}, 5, "/nowhere/at/all.svg"},
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

TEST_F(Bench, EveryFlagIsInTheManual) {
  EXPECT_EQ(flags_without_manual(MINFER_BENCH), std::vector<std::string>());
}

}  // namespace
}  // namespace minfer
