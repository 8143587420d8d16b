// minfer-ab on gates whose effect is planted: found where it is large, never invented, and no
// verdict where the evidence is missing.
#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "json_schema.h"
#include "man_page.h"
#include "run_tool.h"

namespace minfer {
namespace {

/// Enough for a comparison whose verdict does not matter.
const std::vector<std::string> kFew = {"--pairs", "8", "--confidence", "80"};

std::vector<std::string> with(std::vector<std::string> arguments,
                              const std::vector<std::string>& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

class Ab : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new WorkFolder();
    const ToolResult made = run_tool(
        MINFER_SYNTH, {"--preset", "tiny", "--quant", "q8_0", "--vocab", "none", "-o", model()});
    ASSERT_EQ(made.status, 0) << made.err;
  }
  static void TearDownTestSuite() {
    delete folder_;
    folder_ = nullptr;
  }
  static std::string model() { return *folder_ / "tiny.gguf"; }

  static ToolResult ab(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"-m", model(), "--plugin", MINFER_PROXY, "--device",
                                         "proxy", "--metric", "tg16", "--quiet"});
    return run_tool(MINFER_AB, arguments);
  }
  static boost::json::object ab_json(std::vector<std::string> arguments, int status) {
    arguments.emplace_back("--json");
    const ToolResult result = ab(std::move(arguments));
    EXPECT_EQ(result.status, status) << result.err;
    boost::system::error_code failed;
    auto value = boost::json::parse(result.out, failed);
    EXPECT_FALSE(failed) << result.out;
    const JsonSchema schema(
        boost::json::parse(read_file(MINFER_SOURCE_DIR "/docs/schema/minfer-ab.schema.json")));
    for (const std::string& fault : schema.faults(value)) ADD_FAILURE() << fault;
    return value.is_object() ? value.get_object() : boost::json::object();
  }
  /// A comparison that must end without a verdict, for a reason that says `part`.
  static void expect_refused(std::vector<std::string> arguments, const std::string& part) {
    const auto root = ab_json(std::move(arguments), 1);
    EXPECT_EQ(root.at("verdict").as_string(), "none");
    const std::string refusal(root.at("refusal").as_string());
    EXPECT_NE(refusal.find(part), std::string::npos) << refusal;
    EXPECT_FALSE(root.contains("effect"));
  }

 private:
  static inline WorkFolder* folder_ = nullptr;
};

// Four times the time is told from noise on any machine that runs tests at all.
TEST_F(Ab, FindsAPlantedDelayInBothDirections) {
  const auto worse = ab_json({"--gate", "MINFER_PROXY_DELAY=0,300", "--pairs", "24"}, 0);
  EXPECT_EQ(worse.at("verdict").as_string(), "worse") << worse;
  EXPECT_LT(worse.at("effect").at("high_percent").to_number<double>(), 0);
  const auto better = ab_json({"--gate", "MINFER_PROXY_DELAY=300,0", "--pairs", "24"}, 0);
  EXPECT_EQ(better.at("verdict").as_string(), "better") << better;
  EXPECT_GT(better.at("effect").at("low_percent").to_number<double>(), 0);
}

TEST_F(Ab, SeesNothingInAGateThatDoesNothing) {
  for (const char* seed : {"1", "2"}) {
    const auto root =
        ab_json({"--gate", "MINFER_PROXY_NULL=0,1", "--pairs", "24", "--seed", seed}, 0);
    const auto verdict = root.at("verdict").as_string();
    EXPECT_TRUE(verdict == "no difference" || verdict == "not measurable here") << root;
  }
}

TEST_F(Ab, ReportsEverySampleAndHowItMeasured) {
  const auto root = ab_json(with({"--gate", "proxy:MINFER_PROXY_NULL=0,1"}, kFew), 0);
  EXPECT_EQ(root.at("a").at("samples_ts").as_array().size(), 8u);
  EXPECT_EQ(root.at("b").at("samples_ts").as_array().size(), 8u);
  EXPECT_EQ(root.at("a").at("value").as_string(), "off");
  EXPECT_EQ(root.at("b").at("value").as_string(), "on");
  EXPECT_EQ(root.at("scope").as_string(), "plan");
  EXPECT_EQ(root.at("outputs").at("error").to_number<double>(), 0);
  EXPECT_TRUE(root.contains("control"));
  EXPECT_NE(boost::json::serialize(root.at("kernels_only_b")).find("+NULL"), std::string::npos);
}

TEST_F(Ab, RefusesOutputsThatAreWrong) {
  expect_refused({"--gate", "MINFER_PROXY_WRONG=0,1"}, "more than rounding");
}

TEST_F(Ab, RefusesRoundingThatIsNotDeclared) {
  expect_refused({"--gate", "MINFER_PROXY_ROUNDING=0,1"}, "does not declare");
}

TEST_F(Ab, RefusesTheSameKernelsOnBothSides) {
  expect_refused({"--gate", "MINFER_PROXY_HIDDEN=0,1"}, "the same kernels");
}

TEST_F(Ab, RefusesWhereTheFastPathDidNotRun) {
  expect_refused({"--gate", "MINFER_PROXY_NULL=0,1", "--label", "mmq_fast"}, "'mmq_fast'");
}

TEST_F(Ab, JudgesTheSameKernelsWhenTold) {
  const auto root = ab_json(with({"--gate", "MINFER_PROXY_HIDDEN=0,1", "--same-kernels"}, kFew), 0);
  EXPECT_NE(root.at("verdict").as_string(), "none");
}

TEST_F(Ab, GatesOfScopeLoadKeepTwoImportsOrReload) {
  const std::vector<std::string> common =
      with({"--gate", "MINFER_PROXY_REIMPORT=0,1", "--same-kernels"}, kFew);
  EXPECT_EQ(ab_json(common, 0).at("switching").as_string(),
            "two imports are held, one for each value");
  std::vector<std::string> reload = common;
  reload.emplace_back("--reload");
  EXPECT_EQ(ab_json(reload, 0).at("switching").as_string(),
            "the model is imported anew at every switch");
}

TEST_F(Ab, TextNamesGateMetricSidesAndVerdict) {
  const ToolResult result = ab(with({"--gate", "MINFER_PROXY_NULL=0,1"}, kFew));
  EXPECT_EQ(result.status, 0) << result.err;
  for (const char* part : {"gate       MINFER_PROXY_NULL: off (A) against on (B)",
                           "tg16 on proxy:0", "A          median ", "B          median ",
                           "separated ", "effect ", "control ", "verdict    ", "(bar 1.5 %)"})
    EXPECT_NE(result.out.find(part), std::string::npos) << part << "\n" << result.out;
}

TEST_F(Ab, EveryKindOfMetricRuns) {
  for (const char* metric : {"pp40", "pp9+tg3", "tg4@d20x2", "mix30+2"}) {
    const std::vector<std::string> arguments =
        with({"-m", model(), "--plugin", MINFER_PROXY, "--device", "proxy", "--gate",
              "MINFER_PROXY_NULL=0,1", "--quiet", "--metric", metric},
             kFew);
    const ToolResult result = run_tool(MINFER_AB, arguments);
    EXPECT_EQ(result.status, 0) << metric << "\n" << result.out << result.err;
  }
}

struct WrongAb {
  const char* name;
  std::vector<std::string> arguments;
  const char* message;
};
void PrintTo(const WrongAb& wrong, std::ostream* out) {
  *out << wrong.name;
}

const WrongAb kWrong[] = {
    {"NoGate", {}, "no gate has two values"},
    {"OneValue", {"--gate", "MINFER_PROXY_NULL=1"}, "no gate has two values"},
    {"ThreeValues", {"--gate", "MINFER_PROXY_DELAY=1,2,3"}, "is not two values"},
    {"TwoGates",
     {"--gate", "MINFER_PROXY_NULL=0,1", "--gate", "MINFER_PROXY_DELAY=0,1"},
     "more than one gate"},
    {"SameValue", {"--gate", "MINFER_PROXY_NULL=0,off"}, "both sides have the same value"},
    {"BadValue", {"--gate", "MINFER_PROXY_DELAY=0,fast"}, "fast"},
    {"UnknownGate", {"--gate", "MINFER_PROXY_NUL=0,1"}, "did you mean 'MINFER_PROXY_NULL'?"},
    {"OddPairs", {"--gate", "MINFER_PROXY_NULL=0,1", "--pairs", "23"}, "even number"},
    {"FewPairs", {"--gate", "MINFER_PROXY_NULL=0,1", "--pairs", "20"}, "at least 22"},
    {"Confidence", {"--gate", "MINFER_PROXY_NULL=0,1", "--confidence", "100"}, "--confidence"},
};

class WrongAbFlag : public Ab, public testing::WithParamInterface<WrongAb> {};

TEST_P(WrongAbFlag, GetsItsMessage) {
  const ToolResult result = ab(GetParam().arguments);
  EXPECT_EQ(result.status == 2 || result.status == 3, true) << result.status << result.err;
  EXPECT_EQ(result.out, "");
  EXPECT_NE(result.err.find(GetParam().message), std::string::npos) << result.err;
}

const auto ab_name = [](const auto& test) { return std::string(test.param.name); };
INSTANTIATE_TEST_SUITE_P(Table, WrongAbFlag, testing::ValuesIn(kWrong), ab_name);

TEST_F(Ab, WrongMetricHelpAndVersion) {
  const ToolResult metric = run_tool(MINFER_AB, {"-m", model(), "--metric", "fast"});
  EXPECT_EQ(metric.status, 2);
  EXPECT_NE(metric.err.find("'fast' is not a workload"), std::string::npos) << metric.err;
  const ToolResult help = run_tool(MINFER_AB, {"--help"});
  for (const char* flag : {"--gate", "--metric", "--pairs", "--bar", "--confidence", "--label",
                           "--same-kernels", "--reload", "--json"})
    EXPECT_NE(help.out.find(flag), std::string::npos) << flag;
  EXPECT_TRUE(run_tool(MINFER_AB, {"--version"}).out.starts_with("minfer "));
}

TEST_F(Ab, EveryFlagIsInTheManual) {
  EXPECT_EQ(flags_without_manual(MINFER_AB), std::vector<std::string>());
}

}  // namespace
}  // namespace minfer
