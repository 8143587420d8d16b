// Qwen2, Qwen2.5 and distillations on them: pre-norm decoder, neox RoPE, biases on Q, K and V.
#include "decoder.h"
#include "hparams.h"
#include "registry.h"

namespace minfer {
namespace {

class Qwen2 final : public Model {
 public:
  explicit Qwen2(std::shared_ptr<const GgufFile> file) : Model(std::move(file)) {}

  Result<void> init() {
    MINFER_ASSIGN(hparams_, read_hparams(*file_, "qwen2", MINFER_ROPE_NEOX));
    kv_groups_ = {{.window = 0}};
    for (uint32_t il = 0; il < hparams_.n_layer; ++il)
      kv_layers_.push_back({il, 0, hparams_.n_head_kv, hparams_.head_dim, hparams_.head_dim});
    return {};
  }

 private:
  void build_graph(GraphBuilder& b) const override {
    AttentionOptions options;
    options.rope = hparams_.rope;
    build_decoder(b, hparams_, [&](uint32_t) { return options; });
  }
};

}  // namespace

Result<std::shared_ptr<const Model>> make_qwen2(std::shared_ptr<const GgufFile> file) {
  auto model = std::make_shared<Qwen2>(std::move(file));
  MINFER_TRY(model->init());
  return model;
}

}  // namespace minfer
