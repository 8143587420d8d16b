// Once the engine is ready nothing is allocated, however long it runs.
#include "alloc_counter.h"
#include "sim_fixture.h"

namespace minfer::testing {
namespace {

class SteadyState : public SimTest {};

TEST_F(SteadyState, TheCounterCounts) {
  if (!can_count_allocations()) GTEST_SKIP() << "the allocator is a sanitizer's";
  start_counting();
  auto* volatile leaf = new std::vector<int>(100);
  EXPECT_GE(stop_counting(), 2u);
  delete leaf;
}

TEST_F(SteadyState, StepsAllocateNothing) {
  if (!can_count_allocations()) GTEST_SKIP() << "the allocator is a sanitizer's";
  const auto engine = must_open("gemma3", {"", {"cpu"}});
  const std::vector<TokenId> chunk(20, 7);
  const SequenceId a = *engine->sequence_new();
  const auto round = [&] {
    ASSERT_TRUE(engine->prefill(a, chunk));
    const SequenceId b = *engine->sequence_fork(a);
    for (int i = 0; i < 30; ++i) {
      const StepEntry entries[] = {{a, std::span(chunk).first(1), true, false},
                                   {b, std::span(chunk).first(i % 3 + 1), i % 2 == 0, false}};
      ASSERT_TRUE(engine->step(entries));
    }
    ASSERT_TRUE(engine->sequence_free(b));
    ASSERT_TRUE(engine->sequence_truncate(a, 0));
  };
  start_counting();
  for (int i = 0; i < 5; ++i) round();
  EXPECT_EQ(stop_counting(), 0u);
}

TEST_F(SteadyState, AFirstStepAllocatesNothingEither) {
  if (!can_count_allocations()) GTEST_SKIP() << "the allocator is a sanitizer's";
  const auto engine = must_open("llama", {"", {"cpu"}});
  const SequenceId id = *engine->sequence_new();
  const TokenId token = 3;
  const StepEntry entry{id, {&token, 1}, true, false};
  start_counting();
  const auto result = engine->step({&entry, 1});
  EXPECT_EQ(stop_counting(), 0u);
  EXPECT_TRUE(result);
}

TEST_F(SteadyState, DecodingAheadAllocatesItsResultOnly) {
  if (!can_count_allocations()) GTEST_SKIP() << "the allocator is a sanitizer's";
  const auto engine = must_open("llama", {"", {"cpu"}});
  const SequenceId id = *engine->sequence_new();
  start_counting();
  const auto tokens = engine->decode_greedy(id, 3, 100, {}, {});
  EXPECT_LE(stop_counting(), 1u);
  ASSERT_TRUE(tokens);
  EXPECT_EQ(tokens->size(), 100u);
}

TEST_F(SteadyState, MemoryIsConstantOverALongRun) {
  EngineOptions options = small_options();
  options.context = 0;  // the model's 512
  const auto engine = must_open("llama", {"", {"sim:0"}}, options);
  const SequenceId id = *engine->sequence_new();
  const auto before = engine->measured_memory();
  ASSERT_TRUE(before);
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(engine->decode_greedy(id, 3, 500, {}, {}));
    ASSERT_TRUE(engine->sequence_truncate(id, 0));
  }
  const auto after = engine->measured_memory();
  ASSERT_TRUE(after);
  EXPECT_EQ(before->devices[0].total(), after->devices[0].total());
}

}  // namespace
}  // namespace minfer::testing
