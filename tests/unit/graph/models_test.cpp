// Architectures: hyper-parameters against shapes, purity of building, and what only some layers
// have.
#include <gtest/gtest.h>

#include "gguf/writer.h"
#include "minfer/model.h"
#include "scratch.h"
#include "tiny_models.h"

namespace minfer {
namespace {

class Models : public ::testing::TestWithParam<const char*> {};

Result<std::shared_ptr<const Model>> open_tiny(const std::string& arch, const std::string& tag) {
  const auto path = scratch("graph-" + tag + arch + ".gguf");
  testing::TinyModel tiny;
  tiny.arch = arch;
  MINFER_TRY(testing::write_tiny_model(path, tiny));
  MINFER_ASSIGN(auto file, GgufFile::open(path));
  std::filesystem::remove(path);
  return Model::create(std::move(file));
}

TEST_P(Models, BuildIsPure) {
  const auto model = open_tiny(GetParam(), "pure-");
  ASSERT_TRUE(model) << model.error().message();
  GraphParams params;
  params.bucket = {16, 2, 2, 8};
  const auto a = (*model)->build(params);
  const auto b = (*model)->build(params);
  ASSERT_TRUE(a) << a.error().message();
  EXPECT_EQ(a->to_dot(), b->to_dot());
  EXPECT_EQ(a->units.size(), 2 + 2 * (*model)->hparams().n_layer);
  EXPECT_NE(a->logits, MINFER_NONE);
  EXPECT_NE(a->arg_max, MINFER_NONE);
}

TEST_P(Models, TopologyDoesNotDependOnTheBucket) {
  const auto model = open_tiny(GetParam(), "topology-");
  ASSERT_TRUE(model);
  GraphParams small, large;
  large.bucket = {512, 8, 8, 64};
  const auto a = (*model)->build(small);
  const auto b = (*model)->build(large);
  ASSERT_TRUE(a && b);
  ASSERT_EQ(a->nodes.size(), b->nodes.size());
  for (size_t i = 0; i < a->nodes.size(); ++i) {
    EXPECT_EQ(a->nodes[i].op, b->nodes[i].op);
    EXPECT_EQ(a->nodes[i].src, b->nodes[i].src);
  }
}

TEST_P(Models, EveryNodeReadsWhatIsAlreadyThere) {
  const auto model = open_tiny(GetParam(), "order-");
  ASSERT_TRUE(model);
  const auto graph = (*model)->build(GraphParams{});
  ASSERT_TRUE(graph);
  for (size_t n = 0; n < graph->nodes.size(); ++n) {
    for (const uint32_t src : graph->nodes[n].src) {
      if (src == MINFER_NONE) continue;
      const GraphTensor& t = graph->tensors[src];
      const GraphTensor& owner = t.view_of == MINFER_NONE ? t : graph->tensors[t.view_of];
      if (owner.kind == MINFER_TENSOR_ACTIVATION) {
        EXPECT_LT(owner.producer, n);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Models, ::testing::Values("llama", "qwen2", "qwen3", "gemma3"));

TEST(Gemma3, WindowsAllLayersButEverySixth) {
  const auto model = open_tiny("gemma3", "window-");
  ASSERT_TRUE(model) << model.error().message();
  ASSERT_EQ((*model)->kv_groups().size(), 2u);
  EXPECT_EQ((*model)->kv_groups()[0].window, 0u);
  EXPECT_EQ((*model)->kv_groups()[1].window, 8u);
  for (const KvLayer& kv : (*model)->kv_layers()) EXPECT_EQ(kv.group, kv.layer == 5 ? 0u : 1u);
}

TEST(Models, UnknownArchitectureListsTheKnownOnes) {
  const auto path = scratch("unknown-arch.gguf");
  GgufWriter writer;
  writer.add("general.architecture", "mamba");
  ASSERT_TRUE(writer.open(path));
  ASSERT_TRUE(writer.finish());
  auto file = GgufFile::open(path);
  ASSERT_TRUE(file) << file.error().message();
  const auto model = Model::create(*file);
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code, ErrorCode::kUnsupported);
  EXPECT_NE(model.error().message().find("mamba"), std::string::npos);
  EXPECT_NE(model.error().message().find("qwen3"), std::string::npos);
  std::filesystem::remove(path);
}

/// One key or shape of a good model changed: what the error must say.
struct BadModel {
  const char* key;
  uint32_t value;
  const char* expected;
};

class BadHyperParameters : public ::testing::TestWithParam<BadModel> {};

TEST_P(BadHyperParameters, ErrorGivesBothValues) {
  const BadModel& bad = GetParam();
  const auto path = scratch("bad-hparams.gguf");
  GgufWriter writer;
  writer.add("general.architecture", "qwen2");
  for (const auto& [key, value] :
       std::map<std::string, uint32_t>{{"qwen2.block_count", 1},
                                       {"qwen2.context_length", 128},
                                       {"qwen2.embedding_length", 32},
                                       {"qwen2.feed_forward_length", 64},
                                       {"qwen2.attention.head_count", 4},
                                       {"qwen2.attention.head_count_kv", 2}})
    writer.add(key, key == bad.key ? bad.value : value);
  writer.add("qwen2.attention.layer_norm_rms_epsilon", 1e-6f);
  const int64_t ne[] = {32, 16};
  writer.add_tensor("token_embd.weight", *find_type("F32"), ne);
  ASSERT_TRUE(writer.open(path));
  const std::vector<uint8_t> zeros(32 * 16 * 4);
  ASSERT_TRUE(writer.write(zeros));
  ASSERT_TRUE(writer.finish());
  auto file = GgufFile::open(path);
  ASSERT_TRUE(file) << file.error().message();
  const auto model = Model::create(*file);
  ASSERT_FALSE(model);
  EXPECT_NE(model.error().message().find(bad.expected), std::string::npos)
      << model.error().message();
  std::filesystem::remove(path);
}

INSTANTIATE_TEST_SUITE_P(
    Keys, BadHyperParameters,
    ::testing::Values(BadModel{"qwen2.block_count", 0, "qwen2.block_count"},
                      BadModel{"qwen2.block_count", 100000, "qwen2.block_count"},
                      BadModel{"qwen2.embedding_length", 48, "rows of 32 elements"},
                      BadModel{"qwen2.attention.head_count", 0, "qwen2.attention.head_count"},
                      BadModel{"qwen2.attention.head_count", 5, "5"},
                      BadModel{"qwen2.attention.head_count_kv", 3, "cannot share 3"},
                      BadModel{"qwen2.context_length", 0, "qwen2.context_length"},
                      BadModel{"none", 0, "blk.0.attn_norm.weight"}));

}  // namespace
}  // namespace minfer
