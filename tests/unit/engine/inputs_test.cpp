// A step's input block: valid rows and what padding rows hold.
#include "engine/inputs.h"

#include <gtest/gtest.h>

#include <cstring>

namespace minfer {
namespace {

const std::vector<ModelWeight> kWeights = {{"table", MINFER_TYPE_F32, {32, 100, 1, 1}, 0}};
const std::vector<KvLayer> kKv = {{0, 0, 2, 16, 16}};
const std::vector<KvGroup> kGroups = {{0}};

class Inputs : public ::testing::Test {
 protected:
  Inputs() : kv_(kGroups, {4, 16, 4, 8, 0}) {
    GraphParams params;
    params.bucket = {8, 4, 4, 4};
    params.page_tokens = 4;
    GraphBuilder b(params, kWeights, kKv);
    b.begin_unit(UnitKind::kEmbedding);
    TensorRef x = b.get_rows(b.weight("table", {32, 100}), b.tokens(), "x");
    x = b.reshape(x, {16, 2, 8}, "heads");
    b.kv_store(0, x, x, "store");
    x = b.attention(0, x, 0, 1, 0, {}, "attend");
    b.set_logits(b.get_rows(x, b.out_rows(), "wanted"));
    graph_ = *b.finish();
    layout_ = plan_inputs(graph_, 64);
    block_.assign(layout_.bytes, 0xee);
  }

  void append(SequenceId id, uint32_t n) {
    const KvCache::Append a{id, n};
    ASSERT_TRUE(kv_.begin({&a, 1}));
    kv_.commit();
  }
  template <class T>
  std::vector<T> values(uint32_t kind) const {
    for (const auto& e : layout_.entries) {
      if (e.kind != kind) continue;
      std::vector<T> out(e.bytes / sizeof(T));
      std::memcpy(out.data(), block_.data() + e.offset, e.bytes);
      return out;
    }
    ADD_FAILURE() << "no input " << kind;
    return {};
  }

  KvCache kv_;
  Graph graph_;
  InputLayout layout_;
  std::vector<uint8_t> block_;
};

TEST_F(Inputs, MixedPrefillAndDecode) {
  const SequenceId a = *kv_.create();
  const SequenceId b = *kv_.create();
  append(a, 5);
  const TokenId chunk[] = {7, 8, 9};
  const TokenId one[] = {42};
  const StepEntry entries[] = {{a, one, true, false}, {b, chunk, true, false}};
  const KvCache::Append appends[] = {{a, 1}, {b, 3}};
  ASSERT_TRUE(kv_.begin(appends));
  const StepCounts counts = count_step(entries, kv_);
  EXPECT_EQ(counts.tokens, 4u);
  EXPECT_EQ(counts.seqs, 2u);
  EXPECT_EQ(counts.outs, 2u);
  EXPECT_EQ(counts.max_kv_len, 6u);
  fill_inputs(layout_, graph_.bucket, entries, kv_, block_.data());

  using I = std::vector<int32_t>;
  EXPECT_EQ(values<int32_t>(MINFER_INPUT_TOKENS), (I{42, 7, 8, 9, 0, 0, 0, 0}));
  EXPECT_EQ(values<int32_t>(MINFER_INPUT_POS), (I{5, 0, 1, 2, 0, 0, 0, 0}));
  EXPECT_EQ(values<int32_t>(MINFER_INPUT_Q_START), (I{0, 1, 4, 4, 4}));
  EXPECT_EQ(values<int32_t>(MINFER_INPUT_OUT_ROWS), (I{0, 3, 0, 0}));
  EXPECT_EQ(values<int32_t>(MINFER_INPUT_KV_LEN), (I{6, 3, 0, 0}));
  const int32_t a0 = kv_.page(a, 0, 0), a1 = kv_.page(a, 0, 1), b0 = kv_.page(b, 0, 0);
  EXPECT_EQ(values<int32_t>(MINFER_INPUT_BLOCK_TABLE),
            (I{a0, a1, -1, -1, b0, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}));
  const int64_t slot_a = int64_t{a1} * 4 + 1, slot_b = int64_t{b0} * 4;
  EXPECT_EQ(values<int64_t>(MINFER_INPUT_SLOT),
            (std::vector<int64_t>{slot_a, slot_b, slot_b + 1, slot_b + 2, -1, -1, -1, -1}));
}

TEST_F(Inputs, AllLogitsAskForEveryRow) {
  const SequenceId a = *kv_.create();
  const SequenceId b = *kv_.create();
  const TokenId three[] = {1, 2, 3};
  const StepEntry entries[] = {{a, three, false, false}, {b, three, false, true}};
  const KvCache::Append appends[] = {{a, 3}, {b, 3}};
  ASSERT_TRUE(kv_.begin(appends));
  EXPECT_EQ(count_step(entries, kv_).outs, 3u);
  fill_inputs(layout_, graph_.bucket, entries, kv_, block_.data());
  EXPECT_EQ(values<int32_t>(MINFER_INPUT_OUT_ROWS), (std::vector<int32_t>{3, 4, 5, 0}));
}

}  // namespace
}  // namespace minfer
