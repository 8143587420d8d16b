// Weights, inputs and nodes of the layer.
#include "layer.h"

#include <cstring>

namespace conformance {
namespace {

// f32 only: keeps activations near 1 through the layer.
void shrink(Weight& w) {
  if (w.type != MINFER_TYPE_F32) return;
  for (float& v : w.values) v *= 0.2f;
  std::memcpy(w.file.data(), w.values.data(), w.file.size());
}

}  // namespace

Layer::Layer(std::mt19937_64& rng, uint32_t type, uint64_t model) {
  split.model = model;
  const auto matrix = [&](int64_t id, int64_t od) { return random_weight(rng, type, id, od); };
  const auto vector = [&](int64_t n) { return f32_weight(random_floats(rng, n), n); };
  embedding_ = random_weight(rng, MINFER_TYPE_F16, kDim, kVocab);
  norm1_ = vector(kDim), norm2_ = vector(kDim), norm3_ = vector(kDim);
  q_ = matrix(kDim, kDim), k_ = matrix(kDim, kDim), v_ = matrix(kDim, kDim);
  o_ = matrix(kDim, kDim), bias_ = vector(kDim);
  gate_ = matrix(kDim, kFf), up_ = matrix(kDim, kFf), down_ = matrix(kFf, kDim);
  for (Weight* w : {&q_, &k_, &v_, &o_, &gate_, &up_, &down_}) shrink(*w);
  build();
}

void Layer::fill(Session& session) const {
  session.set(tokens, std::vector<int32_t>{5, 99, 0, 7, 7, 12, 60, 0, 0});
  session.set(pos, std::vector<int32_t>{0, 1, 2, 3, 4, 0, 1, 0, 0});
  session.set(slot, std::vector<int64_t>{16, 17, 18, 19, 20, 33, 32, -1, -1});
  session.set(q_start, std::vector<int32_t>{0, 5, 7});
  session.set(kv_len, std::vector<int32_t>{5, 2});
  session.set(table, std::vector<int32_t>{1, -1, 2, -1});
  session.set(out_rows, std::vector<int32_t>{4, 6, 0});
}

uint32_t Layer::add_norm(uint32_t x, const Weight& w, Dynamic rows, int64_t n) {
  const uint32_t out = split.inner(MINFER_TYPE_F32, {kDim, n}, rows);
  split.node(MINFER_OP_RMS_NORM, {x, split.weight(w, MINFER_USE_PLAIN)}, out,
             minfer_norm_params{0, 1e-5f, 0.0f, 0});
  return out;
}

uint32_t Layer::multiply(const Weight& w, uint32_t x, Dynamic rows, int64_t n, const Weight* bias) {
  const uint32_t out = split.inner(MINFER_TYPE_F32, {w.ne[1], n}, rows);
  std::vector<uint32_t> sources = {split.weight(w, MINFER_USE_MATMUL), x};
  if (bias != nullptr) sources.push_back(split.weight(*bias, MINFER_USE_PLAIN));
  split.node(MINFER_OP_MATMUL, sources, out);
  return out;
}

uint32_t Layer::heads_of(uint32_t x) {
  return split.view(x, {32, 2, kTokens}, {1, 32, kDim}, 0, {2, MINFER_DYN_TOKENS});
}

uint32_t Layer::turn(uint32_t x) {
  minfer_rope_params p{};
  p.n_rot = 32;
  p.freq_base = 10000.0f;
  p.freq_scale = p.attn_factor = 1.0f;
  const uint32_t out = split.inner(MINFER_TYPE_F32, {32, 2, kTokens}, {2, MINFER_DYN_TOKENS});
  split.node(MINFER_OP_ROPE, {heads_of(x), pos}, out, p);
  return out;
}

void Layer::add_inputs() {
  const Dynamic by_token{0, MINFER_DYN_TOKENS};
  tokens = split.input(MINFER_TYPE_I32, {kTokens}, MINFER_INPUT_TOKENS, by_token);
  pos = split.input(MINFER_TYPE_I32, {kTokens}, MINFER_INPUT_POS, by_token);
  slot = split.input(MINFER_TYPE_I64, {kTokens}, MINFER_INPUT_SLOT, by_token);
  q_start = split.input(MINFER_TYPE_I32, {kSeqs + 1}, MINFER_INPUT_Q_START);
  kv_len = split.input(MINFER_TYPE_I32, {kSeqs}, MINFER_INPUT_KV_LEN, {0, MINFER_DYN_SEQS});
  table = split.input(MINFER_TYPE_I32, {2, kSeqs}, MINFER_INPUT_BLOCK_TABLE, {1, MINFER_DYN_SEQS});
  out_rows = split.input(MINFER_TYPE_I32, {kOuts}, MINFER_INPUT_OUT_ROWS, {0, MINFER_DYN_OUTS});
}

uint32_t Layer::attention(uint32_t x) {
  const Dynamic rows{1, MINFER_DYN_TOKENS};
  minfer_kv_desc desc{};
  desc.type = MINFER_TYPE_F32;
  desc.n_head_kv = 2;
  desc.head_dim_k = desc.head_dim_v = 32;
  desc.page_tokens = 16;
  desc.n_pages = 4;
  const uint32_t kv = split.kv(desc);
  const uint32_t normed = add_norm(x, norm1_, rows, kTokens);
  // In the order of a model that finishes each of q, k, v before the next.
  const uint32_t q = turn(multiply(q_, normed, rows, kTokens, &bias_));
  const uint32_t k = turn(multiply(k_, normed, rows, kTokens));
  const uint32_t v = heads_of(multiply(v_, normed, rows, kTokens));
  split.node(MINFER_OP_KV_STORE, {k, v, slot}, MINFER_NONE, minfer_kv_params{0, kv});
  const uint32_t out = split.inner(MINFER_TYPE_F32, {kDim, kTokens}, rows);
  minfer_attention_params params{};
  params.kv = kv;
  params.n_head = 2;
  params.scale = 0.2f;
  params.causal = 1;
  split.node(MINFER_OP_ATTENTION, {q, pos, q_start, kv_len, table}, out, params);
  return multiply(o_, out, rows, kTokens);
}

uint32_t Layer::ffn(uint32_t x) {
  const Dynamic rows{1, MINFER_DYN_OUTS};
  const uint32_t gate = multiply(gate_, x, rows, kOuts);
  const uint32_t act = split.inner(MINFER_TYPE_F32, {kFf, kOuts}, rows);
  split.node(MINFER_OP_SILU, {gate}, act);
  const uint32_t up = multiply(up_, x, rows, kOuts);
  const uint32_t product = split.inner(MINFER_TYPE_F32, {kFf, kOuts}, rows);
  split.node(MINFER_OP_MUL, {act, up}, product);
  return multiply(down_, product, rows, kOuts);
}

uint32_t Layer::pick(uint32_t x) {
  const uint32_t out = split.inner(MINFER_TYPE_F32, {kDim, kOuts}, {1, MINFER_DYN_OUTS});
  split.node(MINFER_OP_GET_ROWS, {x, out_rows}, out);
  return out;
}

void Layer::build() {
  add_inputs();
  const Dynamic rows{1, MINFER_DYN_TOKENS}, outs{1, MINFER_DYN_OUTS};
  const uint32_t w = split.weight(embedding_, MINFER_USE_GATHER | MINFER_USE_MATMUL);
  const uint32_t x = split.inner(MINFER_TYPE_F32, {kDim, kTokens}, rows);
  split.node(MINFER_OP_GET_ROWS, {w, tokens}, x);
  const uint32_t attended = pick(attention(x));
  const uint32_t residual = split.inner(MINFER_TYPE_F32, {kDim, kOuts}, outs);
  split.node(MINFER_OP_ADD, {attended, pick(x)}, residual);
  const uint32_t fed = ffn(add_norm(residual, norm2_, outs, kOuts));
  const uint32_t sum = split.inner(MINFER_TYPE_F32, {kDim, kOuts}, outs);
  split.node(MINFER_OP_ADD, {residual, fed}, sum);
  const uint32_t last = add_norm(sum, norm3_, outs, kOuts);
  logits = split.output(MINFER_TYPE_F32, {kVocab, kOuts}, outs);
  split.node(MINFER_OP_MATMUL, {w, last}, logits);
  best = split.output(MINFER_TYPE_I32, {kOuts}, {0, MINFER_DYN_OUTS});
  split.node(MINFER_OP_ARG_MAX, {logits}, best);
}

}  // namespace conformance
