// Steps one by one: what is refused, what a failure leaves behind, prefill in chunks, greedy
// decoding ahead, cancelling, timing, and gates that change while the engine lives.
#include <algorithm>
#include <numeric>
#include <random>

#include "sim_fixture.h"

namespace minfer::testing {
namespace {

constexpr double kTolerance = 1e-4;

class Step : public SimTest, public ::testing::WithParamInterface<Layout> {
 protected:
  /// Greedy continuation by single steps.
  static std::vector<TokenId> one_by_one(Engine& engine, SequenceId id, TokenId first, size_t n) {
    std::vector<TokenId> out;
    for (TokenId next = first; out.size() < n; next = out.back()) {
      const StepEntry entry{id, {&next, 1}, true, false};
      const auto result = engine.step({&entry, 1});
      if (!result) throw std::runtime_error(result.error().message());
      out.push_back(result->arg_max[0]);
    }
    return out;
  }
  static std::vector<TokenId> prompt(size_t n) {
    std::vector<TokenId> tokens(n);
    std::mt19937 random(static_cast<uint32_t>(n));
    for (TokenId& t : tokens) t = static_cast<TokenId>(random() % 256);
    return tokens;
  }
  static Result<StepResult> feed(Engine& engine, SequenceId id, std::span<const TokenId> tokens) {
    const StepEntry entry{id, tokens, true, false};
    return engine.step({&entry, 1});
  }
};

TEST_P(Step, PrefillInChunksEqualsOneStep) {
  const auto engine = must_open("gemma3", GetParam());
  const auto tokens = prompt(60);
  const SequenceId chunked = *engine->sequence_new();
  const auto result = engine->prefill(chunked, tokens);
  ASSERT_TRUE(result) << result.error().message();
  EXPECT_EQ(*engine->sequence_length(chunked), 60u);
  const std::vector<float> found(result->logits.begin(), result->logits.end());
  EngineOptions wide = small_options();
  wide.max_step_tokens = 64;
  Alone alone(must_open("gemma3", {"cpu", {"cpu"}}, wide));
  EXPECT_LT(relative_error(found, alone.logits(tokens)), kTolerance);
}

TEST_P(Step, DecodingAheadGivesTheSameTokens) {
  const auto engine = must_open("gemma3", GetParam());
  const SequenceId a = *engine->sequence_new();
  ASSERT_TRUE(engine->prefill(a, prompt(30)));
  const SequenceId b = *engine->sequence_fork(a);
  const auto expected = one_by_one(*engine, a, 5, 40);
  std::vector<TokenId> seen;
  const auto tokens = engine->decode_greedy(b, 5, 40, {}, [&](TokenId t) {
    seen.push_back(t);
    return true;
  });
  ASSERT_TRUE(tokens) << tokens.error().message();
  EXPECT_EQ(*tokens, expected);
  EXPECT_EQ(seen, expected);
  EXPECT_EQ(*engine->sequence_length(b), 70u);
}

TEST_P(Step, AStopTokenCutsWhatWasQueuedBehindIt) {
  const auto engine = must_open("llama", GetParam());
  const SequenceId a = *engine->sequence_new();
  ASSERT_TRUE(engine->prefill(a, prompt(14)));
  const SequenceId b = *engine->sequence_fork(a);
  const SequenceId c = *engine->sequence_fork(a);
  const auto expected = one_by_one(*engine, a, 5, 12);
  const TokenId stop[] = {expected[6]};
  const auto end = std::find(expected.begin(), expected.end(), stop[0]) - expected.begin() + 1;
  const auto stopped = engine->decode_greedy(b, 5, 12, stop, {});
  ASSERT_TRUE(stopped);
  EXPECT_EQ(*stopped, std::vector<TokenId>(expected.begin(), expected.begin() + end));
  EXPECT_EQ(*engine->sequence_length(b), 14u + static_cast<uint32_t>(end));
  // Both ways of going on from there agree.
  EXPECT_EQ(one_by_one(*engine, b, stopped->back(), 5),
            std::vector<TokenId>(expected.begin() + end, expected.begin() + end + 5));
  int calls = 0;
  const auto refused = engine->decode_greedy(c, 5, 12, {}, [&](TokenId) { return ++calls < 3; });
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->size(), 3u);
  EXPECT_EQ(*engine->sequence_length(c), 17u);
}

TEST_P(Step, DecodingStopsAtTheContext) {
  const auto engine = must_open("llama", GetParam());
  const SequenceId id = *engine->sequence_new();
  ASSERT_TRUE(engine->prefill(id, prompt(120)));
  const auto tokens = engine->decode_greedy(id, 1, 50, {}, {});
  ASSERT_TRUE(tokens) << tokens.error().message();
  EXPECT_EQ(tokens->size(), 8u);
  EXPECT_EQ(*engine->sequence_length(id), 128u);
  EXPECT_EQ(engine->decode_greedy(id, 1, 1, {}, {}).error().code, ErrorCode::kContext);
  EXPECT_EQ(feed(*engine, id, prompt(1)).error().code, ErrorCode::kContext);
}

TEST_P(Step, CancelEndsDecodingAndTheEngineGoesOn) {
  const auto engine = must_open("llama", GetParam());
  const SequenceId id = *engine->sequence_new();
  ASSERT_TRUE(engine->prefill(id, prompt(10)));
  uint32_t seen = 0;
  const auto cancelled = engine->decode_greedy(id, 1, 50, {}, [&](TokenId) {
    if (++seen == 4) engine->cancel();
    return true;
  });
  ASSERT_FALSE(cancelled);
  EXPECT_EQ(cancelled.error().code, ErrorCode::kCancelled);
  EXPECT_EQ(*engine->sequence_length(id), 10 + seen);
  EXPECT_TRUE(feed(*engine, id, prompt(3)));
}

TEST_P(Step, TimingCoversEveryOperator) {
  const auto engine = must_open("llama", GetParam());
  const SequenceId id = *engine->sequence_new();
  engine->set_timing(true);
  ASSERT_TRUE(engine->prefill(id, prompt(10)));
  ASSERT_TRUE(engine->decode_greedy(id, 1, 3, {}, {}));
  engine->set_timing(false);
  const auto timings = engine->op_timings();
  EXPECT_TRUE(std::any_of(timings.begin(), timings.end(), [](const OpTiming& t) {
    return t.op == "MatMul" && t.calls >= 4 && !t.kernel.empty();
  }));
}

INSTANTIATE_TEST_SUITE_P(Placements, Step, ::testing::ValuesIn(all_layouts()),
                         [](const auto& tested) { return tested.param.name; });

class Refused : public Step {};
INSTANTIATE_TEST_SUITE_P(Placements, Refused, ::testing::Values(Layout{"sim", {"sim:0"}}),
                         [](const auto& tested) { return tested.param.name; });

TEST_P(Refused, BadBatchesChangeNothing) {
  EngineOptions options = small_options();
  options.max_step_outputs = 4;
  const auto engine = must_open("llama", GetParam(), options);
  const SequenceId id = *engine->sequence_new();
  ASSERT_TRUE(feed(*engine, id, prompt(5)));
  const uint32_t free_pages = engine->free_pages(0);
  const std::vector<TokenId> good = {1, 2}, negative = {1, -1}, large = {256}, none;
  const auto long_prompt = prompt(25);
  const struct {
    const char* what;
    std::vector<StepEntry> entries;
    ErrorCode code;
    const char* says;
  } cases[] = {
      {"empty batch", {}, ErrorCode::kUsage, "at least one"},
      {"no tokens", {{id, none, true, false}}, ErrorCode::kUsage, "no token"},
      {"negative token", {{id, negative, true, false}}, ErrorCode::kUsage, "token -1"},
      {"token beyond the vocabulary", {{id, large, true, false}}, ErrorCode::kUsage, "of 256"},
      {"unknown sequence", {{3, good, true, false}}, ErrorCode::kUsage, "sequence 3"},
      {"a sequence twice",
       {{id, good, true, false}, {id, good, true, false}},
       ErrorCode::kUsage,
       "twice"},
      {"too many tokens", {{id, long_prompt, true, false}}, ErrorCode::kUsage, "24 are allowed"},
      {"too many rows",
       {{id, std::span(long_prompt).first(5), false, true}},
       ErrorCode::kUsage,
       "4 are allowed"},
  };
  for (const auto& c : cases) {
    const auto result = engine->step(c.entries);
    ASSERT_FALSE(result) << c.what;
    EXPECT_EQ(result.error().code, c.code) << c.what;
    EXPECT_NE(result.error().what.find(c.says), std::string::npos) << result.error().message();
    EXPECT_EQ(*engine->sequence_length(id), 5u) << c.what;
    EXPECT_EQ(engine->free_pages(0), free_pages) << c.what;
  }
}

TEST_P(Refused, AFullPoolIsAnErrorAndLeavesTheOthersAlone) {
  EngineOptions options = small_options();
  options.kv_pages = 3;
  const auto engine = must_open("llama", GetParam(), options);
  const SequenceId a = *engine->sequence_new();
  const SequenceId b = *engine->sequence_new();
  ASSERT_TRUE(engine->prefill(a, prompt(32)));
  const auto full = engine->prefill(b, prompt(17));
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().code, ErrorCode::kContext);
  EXPECT_EQ(*engine->sequence_length(b), 0u);
  EXPECT_EQ(engine->free_pages(0), 1u);
  EXPECT_TRUE(feed(*engine, b, prompt(16)));
  EXPECT_EQ(engine->free_pages(0), 0u);
  ASSERT_TRUE(engine->sequence_free(a));
  EXPECT_TRUE(feed(*engine, b, prompt(1)));
}

TEST_P(Refused, AFailedStepLeavesTheSequencesAsTheyWere) {
  Alone alone(must_open("llama", {"cpu", {"cpu"}}));
  for (const Layout& layout : {Layout{"", {"sim:0"}}, Layout{"", {"sim:0", "sim:1"}, 1}}) {
    const auto engine = must_open("llama", layout);
    const SequenceId a = *engine->sequence_new();
    auto held = prompt(18);
    ASSERT_TRUE(feed(*engine, a, held));
    const SequenceId b = *engine->sequence_fork(a);
    for (uint32_t nth = 1; nth <= engine->devices().size(); ++nth) {
      const uint32_t free_pages = engine->free_pages(0);
      sim().fail_run(nth, 6, 0);
      const auto failed = feed(*engine, b, prompt(20));
      ASSERT_FALSE(failed);
      EXPECT_NE(failed.error().what.find("a fault was ordered"), std::string::npos);
      EXPECT_EQ(*engine->sequence_length(b), 18u);
      EXPECT_EQ(engine->free_pages(0), free_pages);
    }
    for (const SequenceId id : {a, b}) {
      const auto result = feed(*engine, id, prompt(3));
      ASSERT_TRUE(result) << result.error().message();
      auto all = held;
      for (const TokenId t : prompt(3)) all.push_back(t);
      EXPECT_LT(relative_error(result->logits, alone.logits(all)), kTolerance);
    }
  }
}

TEST_P(Refused, AFaultOfQueuedWorkSurfacesAtTheStepThatQueuedIt) {
  const auto engine = must_open("llama", GetParam());
  const SequenceId id = *engine->sequence_new();
  ASSERT_TRUE(feed(*engine, id, prompt(5)));
  sim().fail_run(1, 5, 1);
  const auto lost = feed(*engine, id, prompt(5));
  ASSERT_FALSE(lost);
  EXPECT_EQ(lost.error().code, ErrorCode::kDevice) << lost.error().message();
  EXPECT_EQ(*engine->sequence_length(id), 5u);
  EXPECT_FALSE(feed(*engine, id, prompt(5))) << "the fault is sticky";
}

TEST_P(Refused, AFailureInALaterChunkUndoesThePrefill) {
  const auto engine = must_open("llama", GetParam());
  const SequenceId id = *engine->sequence_new();
  ASSERT_TRUE(feed(*engine, id, prompt(5)));
  sim().fail_run(3, 6, 0);
  EXPECT_FALSE(engine->prefill(id, prompt(70)));
  EXPECT_EQ(*engine->sequence_length(id), 5u);
  ASSERT_TRUE(engine->prefill(id, prompt(70)));
}

TEST_P(Refused, ALoadThatRunsOutOfMemoryCanBeTriedAgain) {
  EngineOptions options = small_options();
  options.devices = {"sim:0", "sim:1"};
  options.gpu_layers = 1;
  int failures = 0;
  for (uint32_t nth = 1;; ++nth) {
    auto engine = Engine::plan(tiny("llama"), *host_, options);
    ASSERT_TRUE(engine);
    sim().fail_allocation(nth);
    const auto loaded = (*engine)->load();
    sim().fail_allocation(0);
    if (loaded) break;
    ++failures;
    EXPECT_EQ(loaded.error().code, ErrorCode::kOutOfMemory) << loaded.error().message();
    EXPECT_NE(loaded.error().what.find("bytes"), std::string::npos) << loaded.error().message();
    const auto again = (*engine)->load();
    ASSERT_TRUE(again) << again.error().message();
    const SequenceId id = *(*engine)->sequence_new();
    EXPECT_TRUE(feed(**engine, id, prompt(5)));
  }
  EXPECT_GT(failures, 8);
}

TEST_P(Refused, AChangedGateMovesPlansToNewMemory) {
  const auto engine = must_open("llama", {"", {"sim:0", "sim:1"}, 1});
  Alone alone(must_open("llama", {"cpu", {"cpu"}}));
  const SequenceId id = *engine->sequence_new();
  std::vector<TokenId> held;
  for (const char* kib : {"0", "64", "0", "256"}) {
    ASSERT_TRUE(host_->gates().set("MINFER_SIM_EXTRA_WORKSPACE", kib, GateSource::kConfig));
    const auto refreshed = engine->refresh_gates();
    ASSERT_TRUE(refreshed) << refreshed.error().message();
    for (const TokenId t : prompt(9)) held.push_back(t);
    const auto result = feed(*engine, id, prompt(9));
    ASSERT_TRUE(result) << result.error().message();
    EXPECT_LT(relative_error(result->logits, alone.logits(held)), kTolerance);
  }
  const auto measured = engine->measured_memory();
  ASSERT_TRUE(measured);
  EXPECT_GE(measured->devices[0].workspace, 256u << 10);
}

// Plans keep what a plugin has captured of them while a gate goes to and fro.
TEST_P(Refused, AGateThatGoesBackBindsNothingAgain) {
  const auto engine = must_open("llama", {"", {"sim:0"}});
  const SequenceId id = *engine->sequence_new();
  ASSERT_TRUE(host_->gates().set("MINFER_SIM_EXTRA_WORKSPACE", "64", GateSource::kConfig));
  ASSERT_TRUE(engine->refresh_gates());
  ASSERT_TRUE(host_->gates().set("MINFER_SIM_EXTRA_WORKSPACE", "0", GateSource::kConfig));
  ASSERT_TRUE(engine->refresh_gates()) << "bound again: the workspace has moved";
  const uint64_t binds = sim_stats().binds;
  EXPECT_GT(binds, 0u);
  for (const char* kib : {"64", "0", "64", "0"}) {
    ASSERT_TRUE(host_->gates().set("MINFER_SIM_EXTRA_WORKSPACE", kib, GateSource::kConfig));
    ASSERT_TRUE(engine->refresh_gates());
    EXPECT_TRUE(feed(*engine, id, prompt(3)));
  }
  EXPECT_EQ(sim_stats().binds, binds);
}

TEST_P(Refused, TwoEnginesShareADevicePlugin) {
  auto first = must_open("llama", {"", {"sim:0"}});
  auto second = must_open("gemma3", {"", {"sim:0"}});
  Alone alone_first(must_open("llama", {"cpu", {"cpu"}}));
  Alone alone_second(must_open("gemma3", {"cpu", {"cpu"}}));
  const auto tokens = prompt(20);
  const SequenceId a = *first->sequence_new();
  const SequenceId b = *second->sequence_new();
  EXPECT_LT(relative_error(feed(*first, a, tokens)->logits, alone_first.logits(tokens)),
            kTolerance);
  EXPECT_LT(relative_error(feed(*second, b, tokens)->logits, alone_second.logits(tokens)),
            kTolerance);
  first.reset();
  EXPECT_TRUE(feed(*second, b, prompt(2)));
}

TEST_P(Refused, SlidingWindowsGivePagesBack) {
  EngineOptions options = small_options();
  options.context = 480;
  options.max_sequences = 1;
  const auto engine = must_open("gemma3", GetParam(), options);
  const SequenceId id = *engine->sequence_new();
  ASSERT_EQ(engine->model().kv_groups().size(), 2u);
  const uint32_t windowed = engine->model().kv_groups()[0].window ? 0 : 1;
  const uint32_t pool = engine->free_pages(windowed);
  EXPECT_LT(pool, 480u / 16 / 4);
  ASSERT_TRUE(engine->prefill(id, prompt(400)));
  const auto tokens = engine->decode_greedy(id, 1, 79, {}, {});
  ASSERT_TRUE(tokens) << tokens.error().message();
  EXPECT_EQ(tokens->size(), 79u);
  ASSERT_TRUE(engine->sequence_free(id));
  EXPECT_EQ(engine->free_pages(windowed), pool);
}

}  // namespace
}  // namespace minfer::testing
