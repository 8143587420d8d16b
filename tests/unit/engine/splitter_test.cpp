// The splitter: runs of nodes, local tables, escaping tensors, and exactly the crossing copies.
#include "engine/splitter.h"

#include <gtest/gtest.h>

#include "engine/arena.h"

namespace minfer {
namespace {

const std::vector<ModelWeight> kWeights = {{"table", MINFER_TYPE_F32, {64, 100, 1, 1}, 0},
                                           {"square", MINFER_TYPE_F32, {64, 64, 1, 1}, 1},
                                           {"kv", MINFER_TYPE_F32, {64, 32, 1, 1}, 2}};
const std::vector<KvLayer> kKv = {{0, 0, 2, 16, 16}, {1, 1, 2, 16, 16}};
const uint32_t kPages[] = {11, 22};

/// Embedding, then two layers of attention and ffn with a residual stream, then a head.
Graph layered() {
  GraphParams params;
  params.bucket = {8, 2, 3, 4};
  GraphBuilder b(params, kWeights, kKv);
  b.begin_unit(UnitKind::kEmbedding);
  TensorRef x = b.get_rows(b.weight("table", {64, 100}), b.tokens(), "embed");
  for (uint32_t layer = 0; layer < 2; ++layer) {
    b.begin_unit(UnitKind::kAttention, layer);
    const TensorRef q =
        b.reshape(b.matmul(b.weight("square", {64, 64}), x, {}, "q"), {16, 4, 8}, "qv");
    const TensorRef k = b.reshape(b.matmul(b.weight("kv", {64, 32}), x, {}, "k"), {16, 2, 8}, "kv");
    b.kv_store(layer, k, k, "store");
    x = b.add(x, b.attention(layer, q, 0, 1, 0, {}, "attend"), "attn_out");
    b.begin_unit(UnitKind::kFfn, layer);
    x = b.add(x, b.matmul(b.weight("square", {64, 64}), x, {}, "ffn"), "ffn_out");
  }
  b.begin_unit(UnitKind::kHead);
  x = b.get_rows(x, b.out_rows(), "wanted");
  b.set_logits(b.matmul(b.weight("square", {64, 64}), x, {}, "logits"));
  auto graph = b.finish();
  EXPECT_TRUE(graph) << graph.error().message();
  return std::move(*graph);
}

std::string name_of(const Graph& graph, uint32_t tensor) {
  return graph.tensors[tensor].name;
}

SplitPlan split(const Graph& graph, std::vector<size_t> devices) {
  return split_graph(graph, devices, {kPages, 7});
}

/// Every index of a split's tables is within them and points back at the same graph.
void check_tables(const Graph& graph, const SplitPlan& plan) {
  size_t nodes = 0;
  for (const Split& s : plan.splits) {
    const minfer_split table = s.table();
    ASSERT_EQ(table.n_nodes, s.graph_nodes.size());
    EXPECT_EQ(table.model, 7u);
    for (uint32_t i = 0; i < table.n_nodes; ++i) {
      const GraphNode& original = graph.nodes[s.graph_nodes[i]];
      ASSERT_EQ(s.nodes[i].n_src, original.src.size());
      for (uint32_t k = 0; k < s.nodes[i].n_src; ++k) {
        const uint32_t local = s.nodes[i].src[k];
        if (original.src[k] == MINFER_NONE) {
          EXPECT_EQ(local, MINFER_NONE);
          continue;
        }
        ASSERT_LT(local, table.n_tensors);
        EXPECT_EQ(s.graph_tensor[local], original.src[k]);
      }
    }
    for (uint32_t t = 0; t < table.n_tensors; ++t) {
      const uint32_t base = s.tensors[t].view_of;
      if (base == MINFER_NONE) continue;
      ASSERT_LT(base, t);
      EXPECT_EQ(s.tensors[base].view_of, MINFER_NONE);
    }
    nodes += table.n_nodes;
  }
  EXPECT_EQ(nodes, graph.nodes.size());
}

TEST(Splitter, OneDeviceIsOneSplit) {
  const Graph graph = layered();
  const SplitPlan plan = split(graph, std::vector<size_t>(graph.units.size(), 0));
  ASSERT_EQ(plan.splits.size(), 1u);
  EXPECT_TRUE(plan.crossings.empty());
  check_tables(graph, plan);
  for (size_t t = 0; t < plan.splits[0].tensors.size(); ++t) {
    const bool out = plan.splits[0].graph_tensor[t] == graph.logits ||
                     plan.splits[0].graph_tensor[t] == graph.arg_max;
    EXPECT_EQ((plan.splits[0].tensors[t].flags & MINFER_FLAG_ESCAPES) != 0, out)
        << plan.splits[0].tensors[t].name;
    EXPECT_NE(plan.splits[0].tensors[t].input, MINFER_INPUT_HIDDEN);
  }
}

TEST(Splitter, OneTensorCrossesBetweenUnits) {
  const Graph graph = layered();
  const SplitPlan plan = split(graph, {0, 0, 0, 1, 1, 1});
  ASSERT_EQ(plan.splits.size(), 2u);
  check_tables(graph, plan);
  ASSERT_EQ(plan.crossings.size(), 1u);
  EXPECT_EQ(name_of(graph, plan.crossings[0].tensor), "ffn_out");
  const uint32_t received = plan.splits[1].local(plan.crossings[0].tensor);
  ASSERT_NE(received, MINFER_NONE);
  EXPECT_EQ(plan.splits[1].tensors[received].kind, MINFER_TENSOR_INPUT);
  EXPECT_EQ(plan.splits[1].tensors[received].input, MINFER_INPUT_HIDDEN);
  const uint32_t sent = plan.splits[0].local(plan.crossings[0].tensor);
  EXPECT_TRUE(plan.splits[0].tensors[sent].flags & MINFER_FLAG_ESCAPES);
}

TEST(Splitter, KvLayersAreNumberedPerSplit) {
  const Graph graph = layered();
  const SplitPlan plan = split(graph, {0, 0, 0, 1, 1, 1});
  const Split& second = plan.splits[1];
  ASSERT_EQ(second.kv.size(), 1u);
  EXPECT_EQ(second.kv[0].layer, 1u);
  EXPECT_EQ(second.kv[0].n_pages, 22u);
  for (const minfer_node& node : second.nodes) {
    if (node.op == MINFER_OP_KV_STORE) {
      EXPECT_EQ(static_cast<const minfer_kv_params*>(node.params)->kv, 0u);
    }
    if (node.op == MINFER_OP_ATTENTION) {
      EXPECT_EQ(static_cast<const minfer_attention_params*>(node.params)->kv, 0u);
    }
  }
}

TEST(Splitter, GoingThereAndBackCopiesEachTensorOncePerDevice) {
  const Graph graph = layered();
  const SplitPlan plan = split(graph, {0, 1, 0, 1, 0, 1});
  ASSERT_EQ(plan.splits.size(), 6u);
  check_tables(graph, plan);
  // Each boundary passes the residual stream on, and nothing else.
  ASSERT_EQ(plan.crossings.size(), 5u);
  for (uint32_t i = 0; i < 5; ++i) {
    EXPECT_EQ(plan.crossings[i].from, i);
    EXPECT_EQ(plan.crossings[i].to, i + 1);
  }
}

TEST(Splitter, AViewCrossesAsItsOwner) {
  GraphParams params;
  params.bucket = {8, 1, 1, 4};
  GraphBuilder b(params, kWeights, kKv);
  b.begin_unit(UnitKind::kEmbedding);
  const TensorRef x = b.get_rows(b.weight("table", {64, 100}), b.tokens(), "embed");
  const TensorRef view = b.slice_rows(x, 16, 16, "slice");
  b.begin_unit(UnitKind::kHead);
  b.set_logits(b.silu(view, "logits"));
  const Graph graph = *b.finish();
  const SplitPlan plan = split(graph, {0, 1});
  ASSERT_EQ(plan.crossings.size(), 1u);
  EXPECT_EQ(plan.crossings[0].tensor, x.index);
  const Split& second = plan.splits[1];
  const uint32_t local_view = second.local(view.index);
  ASSERT_NE(local_view, MINFER_NONE);
  EXPECT_EQ(second.tensors[local_view].view_of, second.local(x.index));
  EXPECT_EQ(second.tensors[local_view].view_offset, 64);
}

TEST(Arenas, HoldEscapingAndReceivedTensorsOfTheirDevice) {
  const Graph graph = layered();
  const SplitPlan plan = split(graph, {0, 1, 0, 1, 0, 1});
  const uint64_t alignment[] = {64, 256};
  const auto arenas = plan_arenas(graph, plan, alignment);
  ASSERT_EQ(arenas.size(), 2u);
  for (const Crossing& c : plan.crossings) {
    EXPECT_NE(arenas[plan.splits[c.from].device].find(c.tensor), nullptr);
    EXPECT_NE(arenas[plan.splits[c.to].device].find(c.tensor), nullptr);
  }
  EXPECT_NE(arenas[1].find(graph.logits), nullptr);
  EXPECT_EQ(arenas[0].find(graph.logits), nullptr);
  for (const auto& entry : arenas[1].entries) EXPECT_EQ(entry.offset % 256, 0u);
}

}  // namespace
}  // namespace minfer
