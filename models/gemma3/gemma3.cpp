// Gemma 3 (text): embeddings scaled by sqrt(n_embd), norms before and after both halves of a layer,
// RMSNorm per head on Q and K, GELU, and five sliding-window layers for each full one. Windowed
// layers rotate with their own base and without scaling. GGUF stores norm weights with the 1
// already added.
#include <cmath>

#include "decoder.h"
#include "hparams.h"
#include "registry.h"

namespace minfer {
namespace {

constexpr uint32_t kFullGroup = 0;
constexpr uint32_t kWindowGroup = 1;

class Gemma3 final : public Model {
 public:
  explicit Gemma3(std::shared_ptr<const GgufFile> file) : Model(std::move(file)) {}

  Result<void> init() {
    MINFER_ASSIGN(hparams_, read_hparams(*file_, "gemma3", MINFER_ROPE_NEOX));
    MINFER_ASSIGN(const auto base, file_->get_float("gemma3.rope.freq_base"));
    if (!base) hparams_.rope.freq_base = 1e6f;
    MINFER_ASSIGN(const auto base_swa, file_->get_float("gemma3.rope.freq_base_swa"));
    MINFER_ASSIGN(const auto window,
                  file_->get_uint("gemma3.attention.sliding_window", UINT32_MAX));
    MINFER_ASSIGN(const auto pattern,
                  file_->get_uint("gemma3.attention.sliding_window_pattern", 1024));
    MINFER_ASSIGN(const auto cap, file_->get_float("gemma3.final_logit_softcapping"));
    window_ = static_cast<uint32_t>(window.value_or(0));
    pattern_ = static_cast<uint32_t>(pattern.value_or(6));
    final_cap_ = static_cast<float>(cap.value_or(0.0));
    window_rope_ = hparams_.rope;
    window_rope_.freq_base = static_cast<float>(base_swa.value_or(10000.0));
    window_rope_.freq_scale = 1.0f;
    window_rope_.ext_factor = 0.0f;
    kv_groups_ = {{.window = 0}, {.window = window_}};
    for (uint32_t il = 0; il < hparams_.n_layer; ++il)
      kv_layers_.push_back({il, is_full(il) ? kFullGroup : kWindowGroup, hparams_.n_head_kv,
                            hparams_.head_dim, hparams_.head_dim});
    return {};
  }

 private:
  bool is_full(uint32_t il) const {
    return window_ == 0 || (pattern_ > 0 && (il + 1) % pattern_ == 0);
  }

  TensorRef norm(GraphBuilder& b, TensorRef x, uint32_t il, std::string_view name) const {
    const std::string base = block_tensor(il, name);
    return b.rms_norm(x, b.weight(base + ".weight", {hparams_.n_embd}), hparams_.rms_eps, 0, base);
  }

  AttentionOptions options_of(uint32_t il) const {
    AttentionOptions options;
    options.qk_norm = true;
    options.rope = is_full(il) ? hparams_.rope : window_rope_;
    options.window = is_full(il) ? 0 : window_;
    // The 27B model (62 layers) divides by sqrt(n_embd / n_head) instead of sqrt(head_dim).
    if (hparams_.n_layer == 62)
      options.scale = 1.0f / std::sqrt(static_cast<float>(hparams_.n_embd) / hparams_.n_head);
    return options;
  }

  void build_graph(GraphBuilder& b) const override {
    const HyperParams& hp = hparams_;
    b.begin_unit(UnitKind::kEmbedding);
    const TensorRef table = b.weight("token_embd.weight", {hp.n_embd, hp.n_vocab});
    TensorRef x = b.get_rows(table, b.tokens(), "embedding");
    x = b.scale(x, std::sqrt(static_cast<float>(hp.n_embd)), 0, "embedding_scaled");
    for (uint32_t il = 0; il < hp.n_layer; ++il) {
      const bool last = il + 1 == hp.n_layer;
      b.begin_unit(UnitKind::kAttention, il);
      TensorRef y = norm(b, x, il, "attn_norm");
      y = attention_block(b, hp, il, y, options_of(il), last);
      y = norm(b, y, il, "post_attention_norm");
      if (last) x = b.get_rows(x, b.out_rows(), "wanted_residual");
      x = b.add(x, y, block_tensor(il, "attn_residual"));

      b.begin_unit(UnitKind::kFfn, il);
      y = norm(b, x, il, "ffn_norm");
      y = ffn_block(b, hp, il, y, FfnActivation::kGeluTanh);
      y = norm(b, y, il, "post_ffw_norm");
      x = b.add(x, y, block_tensor(il, "ffn_residual"));
    }
    head_block(b, hp, x, final_cap_);
  }

  uint32_t window_ = 0;
  uint32_t pattern_ = 6;
  float final_cap_ = 0;
  minfer_rope_params window_rope_{};
};

}  // namespace

Result<std::shared_ptr<const Model>> make_gemma3(std::shared_ptr<const GgufFile> file) {
  auto model = std::make_shared<Gemma3>(std::move(file));
  MINFER_TRY(model->init());
  return model;
}

}  // namespace minfer
