// Sampling allocates nothing once the sampler exists: this program counts every operator new.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <random>

#include "minfer/sampler.h"

namespace {
std::atomic<size_t> g_allocations{0};
}

// All forms that are not defined in terms of one another; not inlined, so that no call site sees a
// new that ends in free().
#define MINFER_NOINLINE __attribute__((noinline))
MINFER_NOINLINE void* operator new(size_t size) {
  ++g_allocations;
  if (void* p = std::malloc(size)) return p;
  throw std::bad_alloc();
}
MINFER_NOINLINE void* operator new(size_t size, const std::nothrow_t&) noexcept {
  ++g_allocations;
  return std::malloc(size);
}
MINFER_NOINLINE void operator delete(void* p) noexcept {
  std::free(p);
}
MINFER_NOINLINE void operator delete(void* p, size_t) noexcept {
  std::free(p);
}
MINFER_NOINLINE void operator delete(void* p, const std::nothrow_t&) noexcept {
  std::free(p);
}

namespace minfer {
namespace {

TEST(SamplerAllocations, AreAllAtCreation) {
  constexpr uint32_t kVocab = 20000;
  std::mt19937 rng(1);
  std::normal_distribution<float> normal;
  std::vector<float> logits(kVocab);
  for (float& logit : logits) logit = normal(rng);

  SamplerParams greedy;
  greedy.temperature = 0;
  SamplerParams usual;
  SamplerParams everything;
  everything.top_k = 0;
  everything.typical_p = 0.99f;
  everything.repeat_penalty = 1.1f;
  everything.frequency_penalty = everything.presence_penalty = 0.1f;
  everything.repeat_last_n = -1;
  everything.logit_bias = {{3, 1.0f}};
  for (const SamplerParams& params : {greedy, usual, everything}) {
    auto sampler = Sampler::create(params, kVocab, 50);
    ASSERT_TRUE(sampler);
    const size_t before = g_allocations;
    for (int i = 0; i < 200; ++i) {
      const Result<TokenId> token = (*sampler)->sample(logits);
      if (!token) FAIL();
      (*sampler)->accept(*token);
    }
    EXPECT_EQ(g_allocations - before, 0u);
  }
}

}  // namespace
}  // namespace minfer
