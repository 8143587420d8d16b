#include "decoder.h"

#include <fmt/format.h>

#include <cmath>

namespace minfer {

std::string block_tensor(uint32_t layer, std::string_view name) {
  return fmt::format("blk.{}.{}", layer, name);
}

namespace {

/// One projection with its optional bias.
TensorRef project(GraphBuilder& b, uint32_t layer, std::string_view name, int64_t in, int64_t out,
                  TensorRef x) {
  const std::string base = block_tensor(layer, name);
  return b.matmul(b.weight(base + ".weight", {in, out}), x,
                  b.optional_weight(base + ".bias", {out}), base);
}

}  // namespace

TensorRef attention_block(GraphBuilder& b, const HyperParams& hp, uint32_t layer, TensorRef x,
                          const AttentionOptions& options, bool last) {
  const auto name = [&](std::string_view part) { return block_tensor(layer, part); };
  const int64_t tokens = b.bucket().tokens;
  const int64_t hd = hp.head_dim;
  const int64_t width = hd * hp.n_head;
  const int64_t width_kv = hd * hp.n_head_kv;

  TensorRef q = project(b, layer, "attn_q", hp.n_embd, width, x);
  TensorRef k = project(b, layer, "attn_k", hp.n_embd, width_kv, x);
  TensorRef v = project(b, layer, "attn_v", hp.n_embd, width_kv, x);
  q = b.reshape(q, {hd, hp.n_head, tokens}, name("q"));
  k = b.reshape(k, {hd, hp.n_head_kv, tokens}, name("k"));
  v = b.reshape(v, {hd, hp.n_head_kv, tokens}, name("v"));
  if (options.qk_norm) {
    q = b.rms_norm(q, b.weight(name("attn_q_norm.weight"), {hd}), hp.rms_eps, 0, name("q_norm"));
    k = b.rms_norm(k, b.weight(name("attn_k_norm.weight"), {hd}), hp.rms_eps, 0, name("k_norm"));
  }
  q = b.rope(q, options.rope_factors, options.rope, name("q_rope"));
  k = b.rope(k, options.rope_factors, options.rope, name("k_rope"));
  b.kv_store(layer, k, v, name("kv_store"));

  const float scale =
      options.scale != 0 ? options.scale : 1.0f / std::sqrt(static_cast<float>(hp.head_dim));
  TensorRef out = b.attention(layer, q, options.window, scale, 0, {}, name("attention"));
  if (last) out = b.get_rows(out, b.out_rows(), "wanted_attention");
  return project(b, layer, "attn_output", width, hp.n_embd, out);
}

TensorRef ffn_block(GraphBuilder& b, const HyperParams& hp, uint32_t layer, TensorRef x,
                    FfnActivation activation) {
  TensorRef gate = project(b, layer, "ffn_gate", hp.n_embd, hp.n_ff, x);
  const TensorRef up = project(b, layer, "ffn_up", hp.n_embd, hp.n_ff, x);
  const std::string act = block_tensor(layer, "ffn_act");
  gate =
      activation == FfnActivation::kSilu ? b.silu(gate, act) : b.gelu(gate, MINFER_GELU_TANH, act);
  const TensorRef gated = b.mul(gate, up, block_tensor(layer, "ffn_gated"));
  return project(b, layer, "ffn_down", hp.n_ff, hp.n_embd, gated);
}

void head_block(GraphBuilder& b, const HyperParams& hp, TensorRef x, float soft_cap) {
  b.begin_unit(UnitKind::kHead);
  x = b.rms_norm(x, b.weight("output_norm.weight", {hp.n_embd}), hp.rms_eps, 0, "output_norm");
  const char* matrix = hp.tied_head ? "token_embd.weight" : "output.weight";
  TensorRef logits = b.matmul(b.weight(matrix, {hp.n_embd, hp.n_vocab}), x,
                              b.optional_weight("output.bias", {hp.n_vocab}), "logits");
  if (soft_cap != 0) logits = b.soft_cap(logits, soft_cap, "logits_capped");
  b.set_logits(logits);
}

}  // namespace minfer
