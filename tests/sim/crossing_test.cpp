// A model made to cross: several tensors pass each border between devices, some as views, some are
// read again much later. Its logits do not depend on where its units are.
#include "sim_fixture.h"

namespace minfer::testing {
namespace {

/// Uses the weights of the tiny llama in a graph of its own.
class CrossingModel : public Model {
 public:
  explicit CrossingModel(std::shared_ptr<const GgufFile> file, const Model& shape)
      : Model(std::move(file)) {
    hparams_ = shape.hparams();
    kv_layers_.assign(shape.kv_layers().begin(), shape.kv_layers().end());
    kv_groups_.assign(shape.kv_groups().begin(), shape.kv_groups().end());
  }

 protected:
  void build_graph(GraphBuilder& b) const override {
    const int64_t width = hparams_.n_embd;
    const int64_t tokens = b.bucket().tokens;
    b.begin_unit(UnitKind::kEmbedding);
    const TensorRef embedded =
        b.get_rows(b.weight("token_embd.weight", {width, 256}), b.tokens(), "embedded");
    TensorRef x = embedded;
    TensorRef earlier = embedded;
    for (uint32_t layer = 0; layer < hparams_.n_layer; ++layer) {
      const std::string blk = "blk." + std::to_string(layer) + ".";
      b.begin_unit(UnitKind::kAttention, layer);
      const TensorRef norm =
          b.rms_norm(x, b.weight(blk + "attn_norm.weight", {width}), 1e-6f, 0, blk + "norm");
      const TensorRef q =
          b.matmul(b.weight(blk + "attn_q.weight", {width, 64}), norm, {}, blk + "q");
      const TensorRef k =
          b.matmul(b.weight(blk + "attn_k.weight", {width, 32}), norm, {}, blk + "k");
      const TensorRef kh = b.reshape(k, {16, 2, tokens}, blk + "kh");
      b.kv_store(layer, kh, kh, blk + "store");
      const TensorRef attended = b.attention(layer, b.reshape(q, {16, 4, tokens}, blk + "qh"), 0,
                                             0.25f, 0, {}, blk + "attended");
      b.begin_unit(UnitKind::kFfn, layer);
      // Two views of q, the attention, the layer's input and one from long ago cross to here.
      const TensorRef gate =
          b.mul(b.slice_rows(q, 0, 32, blk + "low"),
                b.silu(b.slice_rows(q, 32, 32, blk + "high"), blk + "act"), blk + "gate");
      const TensorRef both =
          b.concat(gate, b.slice_rows(attended, 0, 32, blk + "part"), 0, blk + "both");
      const TensorRef before = x;
      x = b.add(b.add(both, x, blk + "sum1"), earlier, blk + "sum2");
      earlier = before;
    }
    b.begin_unit(UnitKind::kHead);
    x = b.add(x, embedded, "with_embedded");
    x = b.get_rows(x, b.out_rows(), "wanted");
    b.set_logits(b.matmul(b.weight("token_embd.weight", {width, 256}), x, {}, "logits"));
  }
};

class Crossing : public SimTest, public ::testing::WithParamInterface<Layout> {};

TEST_P(Crossing, LogitsDoNotDependOnThePlacement) {
  const auto shape = tiny("llama");
  const auto file = std::shared_ptr<const GgufFile>(shape, &shape->file());
  const auto model = std::make_shared<const CrossingModel>(file, *shape);
  const auto reference = open(model, {"", {"cpu"}});
  ASSERT_TRUE(reference) << reference.error().message();
  const auto engine = open(model, GetParam());
  ASSERT_TRUE(engine) << engine.error().message();
  std::vector<TokenId> tokens;
  for (TokenId t = 0; t < 23; ++t) tokens.push_back((t * 37 + 11) % 256);
  for (Engine* e : {reference->get(), engine->get()}) {
    ASSERT_TRUE(e->sequence_new());
    ASSERT_TRUE(e->sequence_new());
  }
  for (const size_t n : {23u, 1u, 7u, 1u}) {
    const auto part = std::span(tokens).first(n);
    const StepEntry entries[] = {{0, part.first((n + 1) / 2), true, false},
                                 {1, part.first((n + 1) / 2), true, false}};
    const auto expected = (*reference)->step(entries);
    const auto found = (*engine)->step(entries);
    ASSERT_TRUE(expected && found);
    EXPECT_LT(relative_error(found->logits, expected->logits), 1e-5) << n << " tokens";
  }
}

INSTANTIATE_TEST_SUITE_P(Placements, Crossing, ::testing::ValuesIn(all_layouts()),
                         [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace minfer::testing
