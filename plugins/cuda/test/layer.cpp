// The split that tests of whole plans use (see layer.h).
#include "layer.h"

namespace minfer_cuda::test {
namespace {

template <class P>
P sized() {
  P p{};
  p.struct_size = sizeof p;
  return p;
}

}  // namespace

Layer make_layer(uint32_t type, uint32_t value_type, int64_t nt, int64_t valid, bool head_norms,
                 int64_t dim, int64_t n_pages) {
  Layer l;
  l.nt = nt;
  Split& s = *l.split;
  const int64_t n = 512, heads = 8, kv_heads = 2, ff = 1024, vocab = 777, outs = nt > 1 ? 2 : 1;
  s.capacity.tokens = static_cast<uint32_t>(nt);
  s.capacity.outs = static_cast<uint32_t>(outs);
  s.args.n_tokens = static_cast<uint32_t>(valid);
  s.args.n_outs = 1;
  const auto tokens = [&]() -> Split& { return s.dynamic(1, MINFER_DYN_TOKENS); };
  const auto matrix = [&](uint32_t t, int64_t id, int64_t od) {
    return s.weight(t, {id, od}, random_rows(t, id, od), MINFER_USE_MATMUL);
  };
  const auto vec = [&](int64_t k) { return s.plain(random_floats(static_cast<size_t>(k))); };
  // Small enough that attention is no arg-max, whose flips would hide any comparison.
  const auto small = [&](int64_t k) {
    return s.plain(random_floats(static_cast<size_t>(k), 0.03f));
  };

  l.x = tokens().floats({n, nt}, random_floats(static_cast<size_t>(n * nt)));
  std::vector<int32_t> pos(static_cast<size_t>(nt));
  std::vector<int64_t> slot(static_cast<size_t>(nt), -1);
  for (int64_t t = 0; t < nt; ++t) pos[static_cast<size_t>(t)] = static_cast<int32_t>(t);
  for (int64_t t = 0; t < valid; ++t) slot[static_cast<size_t>(t)] = t;
  l.pos = s.dynamic(0, MINFER_DYN_TOKENS).ints({nt}, pos);
  l.slot = s.dynamic(0, MINFER_DYN_TOKENS).input(MINFER_TYPE_I64, {nt}, slot.data());
  const uint32_t q_start = s.ints({2}, {0, static_cast<int32_t>(valid)});
  l.kv_len = s.dynamic(0, MINFER_DYN_SEQS).ints({1}, {static_cast<int32_t>(valid)});
  const auto pages = static_cast<int32_t>(n_pages > 0 ? n_pages : nt / 64 + 2);
  std::vector<int32_t> table(static_cast<size_t>(pages));
  for (int32_t i = 0; i < pages; ++i) table[static_cast<size_t>(i)] = i;
  s.capacity.max_pages = static_cast<uint32_t>(pages);
  const uint32_t block_table = s.dynamic(1, MINFER_DYN_SEQS).ints({pages, 1}, table);
  std::vector<int32_t> rows(static_cast<size_t>(outs));
  rows[0] = static_cast<int32_t>(valid - 1);
  const uint32_t out_rows = s.dynamic(0, MINFER_DYN_OUTS).ints({outs}, rows);
  minfer_kv_desc& kv = l.kv;
  kv.struct_size = sizeof kv;
  kv.type = MINFER_TYPE_F16;
  kv.n_head_kv = kv_heads;
  kv.head_dim_k = kv.head_dim_v = static_cast<uint32_t>(dim);
  kv.page_tokens = 64;
  kv.n_pages = static_cast<uint32_t>(pages);
  const uint32_t region = s.kv(kv);

  auto norm = sized<minfer_norm_params>();
  norm.eps = 1e-6f;
  auto rope = sized<minfer_rope_params>();
  rope.n_rot = static_cast<uint32_t>(dim);
  rope.freq_base = 1e4f;
  rope.freq_scale = rope.attn_factor = 1.f;

  const uint32_t h = tokens().activation({n, nt}, false);
  s.node(MINFER_OP_RMS_NORM, {l.x, small(n)}, h, &norm, sizeof norm);
  const auto project = [&](uint32_t t, int64_t od, bool bias) {
    const uint32_t w = matrix(t, n, od);
    std::vector<uint32_t> src{w, h};
    if (bias) src.push_back(vec(od));
    const uint32_t out = tokens().activation({od, nt}, false);
    s.node(MINFER_OP_MATMUL, src, out);
    return out;
  };
  const auto as_heads = [&](uint32_t t, int64_t count) {
    return s.dynamic(2, MINFER_DYN_TOKENS)
        .view(t, {dim, count, nt}, {4, dim * 4, dim * count * 4, dim * count * nt * 4}, 0);
  };
  uint32_t q = as_heads(project(type, heads * dim, !head_norms), heads);
  uint32_t k = as_heads(project(type, kv_heads * dim, !head_norms), kv_heads);
  const uint32_t v = as_heads(project(value_type, kv_heads * dim, !head_norms), kv_heads);
  const auto rotated = [&](uint32_t t, int64_t count) {
    if (head_norms) {
      const uint32_t normed = s.dynamic(2, MINFER_DYN_TOKENS).activation({dim, count, nt}, false);
      s.node(MINFER_OP_RMS_NORM, {t, vec(dim)}, normed, &norm, sizeof norm);
      t = normed;
    }
    const uint32_t out = s.dynamic(2, MINFER_DYN_TOKENS).activation({dim, count, nt}, false);
    s.node(MINFER_OP_ROPE, {t, l.pos}, out, &rope, sizeof rope);
    return out;
  };
  q = rotated(q, heads);
  k = rotated(k, kv_heads);
  const minfer_kv_params store{sizeof store, region};
  s.node(MINFER_OP_KV_STORE, {k, v, l.slot}, MINFER_NONE, &store, sizeof store);
  auto attention = sized<minfer_attention_params>();
  attention.kv = region;
  attention.n_head = heads;
  attention.scale = 0.125f;
  attention.causal = 1;
  const uint32_t mixed = tokens().activation({heads * dim, nt}, false);
  s.node(MINFER_OP_ATTENTION, {q, l.pos, q_start, l.kv_len, block_table}, mixed, &attention,
         sizeof attention);
  const uint32_t o = tokens().activation({n, nt}, false);
  s.node(MINFER_OP_MATMUL, {matrix(type, heads * dim, n), mixed}, o);
  const uint32_t x1 = tokens().activation({n, nt}, false);
  s.node(MINFER_OP_ADD, {o, l.x}, x1);
  const uint32_t h1 = tokens().activation({n, nt}, false);
  s.node(MINFER_OP_RMS_NORM, {x1, vec(n)}, h1, &norm, sizeof norm);
  const uint32_t gate = tokens().activation({ff, nt}, false),
                 up = tokens().activation({ff, nt}, false);
  s.node(MINFER_OP_MATMUL, {matrix(type, n, ff), h1}, gate);
  s.node(MINFER_OP_MATMUL, {matrix(type, n, ff), h1}, up);
  const uint32_t act = tokens().activation({ff, nt}, false),
                 gated = tokens().activation({ff, nt}, false);
  auto gelu = sized<minfer_gelu_params>();
  if (head_norms)
    s.node(MINFER_OP_GELU, {gate}, act, &gelu, sizeof gelu);
  else
    s.node(MINFER_OP_SILU, {gate}, act);
  s.node(MINFER_OP_MUL, {act, up}, gated);
  const uint32_t down = tokens().activation({n, nt}, false);
  s.node(MINFER_OP_MATMUL, {matrix(value_type, ff, n), gated}, down);
  l.residual = tokens().activation({n, nt}, true);
  s.node(MINFER_OP_ADD, {down, x1}, l.residual);
  const uint32_t last = s.dynamic(1, MINFER_DYN_OUTS).activation({n, outs}, false);
  s.node(MINFER_OP_GET_ROWS, {l.residual, out_rows}, last);
  const uint32_t ln = s.dynamic(1, MINFER_DYN_OUTS).activation({n, outs}, false);
  s.node(MINFER_OP_RMS_NORM, {last, vec(n)}, ln, &norm, sizeof norm);
  l.logits = s.dynamic(1, MINFER_DYN_OUTS).activation({vocab, outs}, true);
  s.node(MINFER_OP_MATMUL, {matrix(type, n, vocab), ln}, l.logits);
  l.best = s.dynamic(0, MINFER_DYN_OUTS).activation({outs}, true, MINFER_TYPE_I32);
  s.node(MINFER_OP_ARG_MAX, {l.logits}, l.best);
  return l;
}

}  // namespace minfer_cuda::test
