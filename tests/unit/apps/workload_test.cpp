// Workloads: their names read back, they do what they say, and their clock agrees with a stopwatch.
#include "workload.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>

#include "host.h"
#include "place.h"
#include "run_tool.h"

namespace minfer::app {
namespace {

TEST(WorkloadName, ReadsBack) {
  for (const char* name : {"pp512", "tg128", "pp500+tg7", "tg1 @ d4096 x8", "pp9 @ d3", "mix500+7",
                           "mix1+1 @ d20", "pp3+tg4 x2"}) {
    const auto parsed = Workload::parse("metric", name);
    ASSERT_TRUE(parsed) << parsed.error().message();
    EXPECT_EQ(parsed->name(), name);
  }
  EXPECT_EQ(Workload::parse("metric", "tg8@d16x2")->name(), "tg8 @ d16 x2");
}

TEST(WorkloadName, WrongOnesAreNamed) {
  for (const char* name : {"", "pp", "pp0", "tg-1", "tg8x", "pp8tg4", "x3", "@d5", "mix5", "mix5+0",
                           "tg99999999999", "tg4 @ d1 x2 y", "mix5+1x2"}) {
    const auto parsed = Workload::parse("metric", name);
    ASSERT_FALSE(parsed) << name;
    EXPECT_EQ(parsed.error().code, ErrorCode::kUsage);
    EXPECT_NE(parsed.error().message().find("--metric"), std::string::npos);
  }
}

class WorkloadOnModel : public testing::Test {
 protected:
  void SetUp() override {
    const std::string model = folder_ / "tiny.gguf";
    const ToolResult made = run_tool(
        MINFER_SYNTH, {"--preset", "tiny", "--quant", "q8_0", "--vocab", "none", "-o", model});
    ASSERT_EQ(made.status, 0) << made.err;
    RunConfig config;
    config.backends.resize(1);
    config.backends[0].name = "cpu";
    config.batch = 16;
    auto host = open_host(config, {});
    ASSERT_TRUE(host) << host.error().message();
    host_ = std::move(*host);
    EngineOptions options = engine_options(config, true);
    options.context = 512;
    options.max_sequences = 4;
    auto file = GgufFile::open(model);
    ASSERT_TRUE(file);
    auto opened = Model::create(*file);
    ASSERT_TRUE(opened) << opened.error().message();
    auto engine = Engine::create(*opened, *host_, options);
    ASSERT_TRUE(engine) << engine.error().message();
    engine_ = std::move(*engine);
  }

  WorkloadRunner runner(const char* name) {
    auto made = WorkloadRunner::create(*engine_, *Workload::parse("metric", name));
    EXPECT_TRUE(made) << made.error().message();
    return std::move(*made);
  }

  WorkFolder folder_;
  std::unique_ptr<PluginHost> host_;
  std::unique_ptr<Engine> engine_;
};

TEST_F(WorkloadOnModel, RunsCountTheirTokensAndRepeat) {
  const std::pair<const char*, uint64_t> cases[] = {
      {"pp40", 40},        {"tg9", 9},     {"pp20+tg5", 25},        {"tg6 x3", 18},
      {"tg4 @ d30 x2", 8}, {"pp8 x2", 16}, {"mix31+2", 31 + 2 * 3}, {"mix5+3 @ d7", 8}};
  for (const auto& [name, tokens] : cases) {
    SCOPED_TRACE(name);
    WorkloadRunner workload = runner(name);
    const auto first = workload.run();
    ASSERT_TRUE(first) << first.error().message();
    EXPECT_EQ(first->tokens, tokens);
    EXPECT_GT(first->seconds, 0);
    EXPECT_GT(first->first_token_seconds, 0);
    EXPECT_LE(first->first_token_seconds, first->seconds);
    const auto second = workload.run();
    ASSERT_TRUE(second) << second.error().message();
    EXPECT_EQ(first->made, second->made) << "each run begins at the same depth";
  }
}

TEST_F(WorkloadOnModel, ObservedRunsMakeTheSameTokensAndTakeForcedOnes) {
  WorkloadRunner workload = runner("pp12+tg6");
  const auto plain = workload.run();
  ASSERT_TRUE(plain);
  uint32_t rows = 0;
  const StepObserver count = [&](const StepResult& step) {
    rows += step.rows;
    EXPECT_FALSE(step.logits.empty());
  };
  const auto observed = workload.run_observed(count, {}, 6);
  ASSERT_TRUE(observed) << observed.error().message();
  EXPECT_EQ(rows, 7u);
  ASSERT_GE(observed->made.size(), plain->made.size());
  EXPECT_EQ(std::vector<TokenId>(observed->made.begin(), observed->made.begin() + 7), plain->made);
  const auto forced = workload.run_observed(count, std::vector<TokenId>(7, 3), 6);
  ASSERT_TRUE(forced);
  EXPECT_EQ(forced->made[0], observed->made[0]);
  EXPECT_NE(forced->made, observed->made) << "other tokens were fed";
}

TEST_F(WorkloadOnModel, TraceNamesWhatRan) {
  WorkloadRunner workload = runner("tg3 x2");
  for (int i = 0; i < 2; ++i) {
    const auto kernels = workload.trace();
    ASSERT_TRUE(kernels) << kernels.error().message();
    uint64_t attention = 0;
    for (const OpTiming& k : *kernels)
      if (k.op == "Attention") attention += k.calls;
    EXPECT_EQ(attention, 3 * engine_->model().hparams().n_layer) << "the last run's alone";
  }
}

// The figure that minfer-bench prints is this clock: around the same run a stopwatch shows the same
// within 2 %. Cutting the sequences back is outside of it. A machine that takes the processor away
// between the two clocks is given another try.
TEST_F(WorkloadOnModel, ClockAgreesWithAStopwatch) {
  WorkloadRunner workload = runner("pp60+tg400");
  ASSERT_TRUE(workload.run());
  double best = 1;
  for (int i = 0; i < 20 && best > 0.02; ++i) {
    const auto start = std::chrono::steady_clock::now();
    const auto ran = workload.run();
    const double stopwatch =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    ASSERT_TRUE(ran);
    EXPECT_LE(ran->seconds, stopwatch);
    best = std::min(best, stopwatch / ran->seconds - 1);
  }
  EXPECT_LE(best, 0.02);
}

}  // namespace
}  // namespace minfer::app
