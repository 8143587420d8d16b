// Blocks that pre-norm decoders share, so that an architecture states only what is its own.
#pragma once

#include <string>
#include <string_view>

#include "minfer/model.h"

namespace minfer {

/// "blk.<layer>.<name>".
std::string block_tensor(uint32_t layer, std::string_view name);

/// How attention differs between architectures; the weights' presence decides about biases.
struct AttentionOptions {
  bool qk_norm = false;  ///< RMSNorm per head on Q and K before RoPE
  minfer_rope_params rope{};
  TensorRef rope_factors{};
  uint32_t window = 0;
  float scale = 0;  ///< 0: 1 / sqrt(head_dim)
};

/// QKV projections, norms, RoPE, KV store, attention and the output projection of one layer.
/// `x`: the normed input [n_embd, tokens]. In the last layer only the wanted rows go through the
/// output projection: `last` selects that, and the result is [n_embd, outs].
TensorRef attention_block(GraphBuilder& b, const HyperParams& hp, uint32_t layer, TensorRef x,
                          const AttentionOptions& options, bool last);

enum class FfnActivation { kSilu, kGeluTanh };

/// Gated feed-forward: down(act(gate(x)) * up(x)).
TensorRef ffn_block(GraphBuilder& b, const HyperParams& hp, uint32_t layer, TensorRef x,
                    FfnActivation activation);

/// Final norm and the vocabulary projection (the embedding itself where the head is tied), with the
/// logits' soft cap when it is not 0.
void head_block(GraphBuilder& b, const HyperParams& hp, TensorRef x, float soft_cap = 0);

/// The whole of a Llama-shaped decoder: embedding; per layer norm, attention, residual, norm, FFN,
/// residual; head. `options` may differ per layer.
template <class OptionsOfLayer>
void build_decoder(GraphBuilder& b, const HyperParams& hp, OptionsOfLayer&& options) {
  b.begin_unit(UnitKind::kEmbedding);
  const TensorRef table = b.weight("token_embd.weight", {hp.n_embd, hp.n_vocab});
  TensorRef x = b.get_rows(table, b.tokens(), "embedding");
  for (uint32_t il = 0; il < hp.n_layer; ++il) {
    const bool last = il + 1 == hp.n_layer;
    b.begin_unit(UnitKind::kAttention, il);
    const TensorRef normed =
        b.rms_norm(x, b.weight(block_tensor(il, "attn_norm.weight"), {hp.n_embd}), hp.rms_eps, 0,
                   block_tensor(il, "attn_norm"));
    const TensorRef attn = attention_block(b, hp, il, normed, options(il), last);
    if (last) x = b.get_rows(x, b.out_rows(), "wanted_residual");
    x = b.add(x, attn, block_tensor(il, "attn_residual"));

    b.begin_unit(UnitKind::kFfn, il);
    const TensorRef ffn_in =
        b.rms_norm(x, b.weight(block_tensor(il, "ffn_norm.weight"), {hp.n_embd}), hp.rms_eps, 0,
                   block_tensor(il, "ffn_norm"));
    x = b.add(x, ffn_block(b, hp, il, ffn_in, FfnActivation::kSilu),
              block_tensor(il, "ffn_residual"));
  }
  head_block(b, hp, x);
}

}  // namespace minfer
