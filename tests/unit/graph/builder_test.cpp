// GraphBuilder: shapes are checked, views are strided, building is pure.
#include <gtest/gtest.h>

#include "minfer/graph.h"

namespace minfer {
namespace {

const std::vector<ModelWeight> kWeights = {
    {"table", MINFER_TYPE_Q8_0, {64, 100, 1, 1}, 0}, {"wide", MINFER_TYPE_Q4_K, {256, 32, 1, 1}, 1},
    {"square", MINFER_TYPE_F32, {64, 64, 1, 1}, 2},  {"norm", MINFER_TYPE_F32, {64, 1, 1, 1}, 3},
    {"norm16", MINFER_TYPE_F16, {64, 1, 1, 1}, 4},
};
const std::vector<KvLayer> kKv = {{0, 0, 2, 16, 16}};

GraphParams params(uint32_t tokens) {
  GraphParams p;
  p.bucket = {tokens, 2, 3, 4};
  return p;
}

GraphBuilder make(uint32_t tokens = 8) {
  GraphBuilder b(params(tokens), kWeights, kKv);
  b.begin_unit(UnitKind::kEmbedding);
  return b;
}

TensorRef embed(GraphBuilder& b) {
  return b.get_rows(b.weight("table", {64, 100}), b.tokens(), "x");
}

TEST(GraphBuilder, GathersRowsPerToken) {
  GraphBuilder b = make();
  const TensorRef x = embed(b);
  const auto graph = b.finish();
  ASSERT_TRUE(graph) << graph.error().message();
  const GraphTensor& t = graph->tensors[x.index];
  EXPECT_EQ(t.ne[0], 64);
  EXPECT_EQ(t.ne[1], 8);
  EXPECT_EQ(t.dyn_axis, 1u);
  EXPECT_EQ(t.dyn_count, MINFER_DYN_TOKENS);
  EXPECT_EQ(t.producer, 0u);
}

TEST(GraphBuilder, WantedRowsFollowTheOutputCount) {
  GraphBuilder b = make();
  const TensorRef y = b.get_rows(embed(b), b.out_rows(), "wanted");
  const auto graph = b.finish();
  ASSERT_TRUE(graph);
  EXPECT_EQ(graph->tensors[y.index].ne[1], 3);
  EXPECT_EQ(graph->tensors[y.index].dyn_count, MINFER_DYN_OUTS);
}

TEST(GraphBuilder, MissingWeightIsNamedWithItsShape) {
  GraphBuilder b = make();
  b.weight("absent", {64, 7});
  const auto graph = b.finish();
  ASSERT_FALSE(graph);
  EXPECT_EQ(graph.error().where, "absent");
  EXPECT_NE(graph.error().what.find("[64, 7]"), std::string::npos);
}

TEST(GraphBuilder, WrongShapeGivesBothShapes) {
  GraphBuilder b = make();
  b.weight("square", {64, 65});
  const auto graph = b.finish();
  ASSERT_FALSE(graph);
  EXPECT_NE(graph.error().what.find("[64, 64, 1, 1]"), std::string::npos);
  EXPECT_NE(graph.error().what.find("[64, 65]"), std::string::npos);
}

TEST(GraphBuilder, FirstErrorWins) {
  GraphBuilder b = make();
  b.weight("first", {1});
  b.weight("second", {1});
  EXPECT_EQ(b.finish().error().where, "first");
}

TEST(GraphBuilder, MatMulChecksTheInnerDimension) {
  GraphBuilder b = make();
  b.matmul(b.weight("wide", {256, 32}), embed(b), {}, "mm");
  const auto graph = b.finish();
  ASSERT_FALSE(graph);
  EXPECT_EQ(graph.error().where, "mm");
}

TEST(GraphBuilder, NormWeightMustBeF32) {
  GraphBuilder b = make();
  b.rms_norm(embed(b), b.weight("norm16", {64}), 1e-6f, 0, "n");
  const auto graph = b.finish();
  ASSERT_FALSE(graph);
  EXPECT_NE(graph.error().what.find("F16"), std::string::npos);
}

TEST(GraphBuilder, ReshapeIsAViewOfTheOwner) {
  GraphBuilder b = make();
  const TensorRef x = embed(b);
  const TensorRef heads = b.reshape(x, {16, 4, 8}, "heads");
  const TensorRef part = b.slice_rows(heads, 8, 8, "part");
  const auto graph = b.finish();
  ASSERT_TRUE(graph);
  const GraphTensor& view = graph->tensors[part.index];
  EXPECT_EQ(view.view_of, x.index);
  EXPECT_EQ(view.view_offset, 32);
  EXPECT_EQ(view.ne[0], 8);
  EXPECT_EQ(view.nb[1], 64);
  EXPECT_EQ(view.nb[2], 256);
  EXPECT_EQ(view.dyn_axis, 2u);
}

TEST(GraphBuilder, ReshapeOfAStridedViewIsRefused) {
  GraphBuilder b = make();
  b.reshape(b.slice_rows(embed(b), 0, 32, "half"), {32 * 8}, "flat");
  EXPECT_FALSE(b.finish());
}

TEST(GraphBuilder, AttentionChecksHeads) {
  GraphBuilder b = make();
  const TensorRef q = b.reshape(embed(b), {32, 2, 8}, "q");
  b.attention(0, q, 0, 1.0f, 0, {}, "attn");
  const auto graph = b.finish();
  ASSERT_FALSE(graph);
  EXPECT_EQ(graph.error().where, "attn");
}

TEST(GraphBuilder, LayersOfAGroupShareTheirInputs) {
  const std::vector<KvLayer> kv = {{0, 0, 2, 16, 16}, {1, 0, 2, 16, 16}, {2, 1, 2, 16, 16}};
  GraphBuilder b(params(8), kWeights, kv);
  b.begin_unit(UnitKind::kAttention, 0);
  const TensorRef q = b.reshape(embed(b), {16, 4, 8}, "q");
  for (uint32_t il = 0; il < 3; ++il) {
    b.kv_store(il, b.slice_rows(q, 0, 16, "k"), q, "store");
    b.attention(il, q, 0, 1.0f, 0, {}, "attn");
  }
  const auto graph = b.finish();
  ASSERT_TRUE(graph);
  int tables = 0, slots = 0, positions = 0;
  for (const GraphTensor& t : graph->tensors) {
    tables += t.input == MINFER_INPUT_BLOCK_TABLE;
    slots += t.input == MINFER_INPUT_SLOT;
    positions += t.input == MINFER_INPUT_POS;
  }
  EXPECT_EQ(tables, 2);
  EXPECT_EQ(slots, 2);
  EXPECT_EQ(positions, 1);
}

TEST(GraphBuilder, NodesNeedAUnit) {
  GraphBuilder b(params(1), kWeights, kKv);
  embed(b);
  EXPECT_FALSE(b.finish());
}

}  // namespace
}  // namespace minfer
