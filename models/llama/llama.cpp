// Llama 2 and 3.x, SmolLM2, Mistral: pre-norm decoder, interleaved RoPE (GGUF stores Q and K
// permuted for it), optional frequency factors (Llama 3.1 and later).
#include "decoder.h"
#include "hparams.h"
#include "registry.h"

namespace minfer {
namespace {

class Llama final : public Model {
 public:
  explicit Llama(std::shared_ptr<const GgufFile> file) : Model(std::move(file)) {}

  Result<void> init() {
    MINFER_ASSIGN(hparams_, read_hparams(*file_, "llama", MINFER_ROPE_INTERLEAVED));
    MINFER_ASSIGN(const auto experts, file_->get_uint("llama.expert_count"));
    if (experts.value_or(0) > 0)
      return fail(ErrorCode::kUnsupported, "mixture-of-experts models are not supported",
                  "llama.expert_count");
    MINFER_ASSIGN(const auto window, file_->get_uint("llama.attention.sliding_window", UINT32_MAX));
    window_ = static_cast<uint32_t>(window.value_or(0));
    kv_groups_ = {{.window = window_}};
    for (uint32_t il = 0; il < hparams_.n_layer; ++il)
      kv_layers_.push_back({il, 0, hparams_.n_head_kv, hparams_.head_dim, hparams_.head_dim});
    return {};
  }

 private:
  void build_graph(GraphBuilder& b) const override {
    build_decoder(b, hparams_, [&](uint32_t) {
      AttentionOptions options;
      options.rope = hparams_.rope;
      options.rope_factors = b.optional_weight("rope_freqs.weight", {hparams_.rope.n_rot / 2});
      options.window = window_;
      return options;
    });
  }

  uint32_t window_ = 0;
};

}  // namespace

Result<std::shared_ptr<const Model>> make_llama(std::shared_ptr<const GgufFile> file) {
  auto model = std::make_shared<Llama>(std::move(file));
  MINFER_TRY(model->init());
  return model;
}

}  // namespace minfer
