// How fast single operators are: what they read and write per second, and their arithmetic. No
// demand; the figures tell an author where to look. Inputs are random, each plan is warm, the
// median counts.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

#include "checks.h"

namespace conformance {
namespace {

constexpr double kSecondsEach = 0.08;
constexpr int kMinRuns = 3;

struct Work {
  double bytes = 0;  ///< read and written
  double flops = 0;  ///< 0: it only moves or compares values
};

/// Median seconds of a run.
double time_runs(Bench& bench, Session& session, const Counts& counts) {
  minfer_run_args args{};
  args.struct_size = sizeof args;
  args.n_tokens = counts.tokens;
  args.n_seqs = counts.seqs;
  args.n_outs = counts.outs;
  args.max_kv_len = counts.max_kv_len;
  args.gates = &bench.device.gates;
  std::vector<double> seconds;
  double total = 0;
  for (int i = -1; i < kMinRuns || total < kSecondsEach; ++i) {
    const auto start = std::chrono::steady_clock::now();
    MINFER_CALL(plan_run, session.plan(), bench.device.queue, &args);
    MINFER_CALL(queue_wait, bench.device.queue);
    const double took =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    total += took;
    if (i >= 0) seconds.push_back(took);
  }
  std::nth_element(seconds.begin(), seconds.begin() + static_cast<int64_t>(seconds.size() / 2),
                   seconds.end());
  return seconds[seconds.size() / 2];
}

void tell(const std::string& name, const Work& work, double seconds) {
  listener().figure(name, work.bytes / seconds * 1e-9, "GB/s");
  if (work.flops > 0) listener().figure(name, work.flops / seconds * 1e-9, "GFLOP/s");
}

/// Random values, integers below `n_rows`; slots ascend.
void fill(Bench& bench, Session& session, const Split& split, int32_t n_rows = 1) {
  for (uint32_t i = 0; i < split.tensors.size(); ++i) {
    const minfer_tensor& t = split.tensors[i];
    if (t.kind != MINFER_TENSOR_INPUT) continue;
    const auto n = static_cast<size_t>(t.ne[0] * t.ne[1] * t.ne[2]);
    if (t.type == MINFER_TYPE_F32) {
      session.set(i, random_floats(bench.rng, static_cast<int64_t>(n)));
    } else if (t.type == MINFER_TYPE_I32) {
      std::vector<int32_t> rows(n);
      for (int32_t& row : rows) row = static_cast<int32_t>(bench.rng() % n_rows);
      session.set(i, rows);
    } else {
      std::vector<int64_t> slots(n);
      std::iota(slots.begin(), slots.end(), 0);
      session.set(i, slots);
    }
  }
}

/// One operator, as `build` adds it to a split of `tokens`.
template <class Build>
void measure(Bench& bench, const std::string& name, const Work& work, uint32_t tokens, Build build,
             int32_t n_rows = 1) {
  variant(name, [&] {
    Split split(tokens);
    build(split);
    Session session(bench.device, split);
    for (uint32_t i = 0; i < split.regions.size(); ++i) session.region(i).clear();
    fill(bench, session, split, n_rows);
    tell(name, work, time_runs(bench, session, {tokens, 1, 1, 0}));
  });
}

void matmul(Bench& bench, uint32_t type, uint32_t tokens) {
  const int64_t id = 2048, od = 2048;
  const Weight weight = random_weight(bench.rng, type, id, od);
  const Work work = {
      static_cast<double>(weight.file.size()) + 4.0 * static_cast<double>((id + od) * tokens),
      2.0 * static_cast<double>(id * od) * tokens};
  measure(
      bench, fmt::format("MATMUL {} {}x{} x {}", minfer_type_name(type), id, od, tokens), work,
      tokens, [&](Split& split) {
        const Dynamic rows{1, MINFER_DYN_TOKENS};
        const uint32_t w = split.weight(weight, MINFER_USE_MATMUL);
        const uint32_t x = split.input(MINFER_TYPE_F32, {id, tokens}, MINFER_INPUT_HIDDEN, rows);
        split.node(MINFER_OP_MATMUL, {w, x}, split.output(MINFER_TYPE_F32, {od, tokens}, rows));
      });
}

/// Two of eight experts for every token.
void matmul_by_id(Bench& bench, uint32_t type, uint32_t tokens) {
  const int64_t id = 1024, od = 1024, experts = 8, places = 2;
  const Weight weight = random_weight(bench.rng, type, id, od, experts);
  const auto products = static_cast<double>(places * tokens);
  const double touched = std::min<double>(experts, products);
  const Work work = {static_cast<double>(weight.file.size()) / experts * touched +
                         4.0 * (id * tokens + od * products),
                     2.0 * static_cast<double>(id * od) * products};
  measure(
      bench,
      fmt::format("MATMUL_BY_ID {} {} of {} {}x{} x {}", minfer_type_name(type), places, experts,
                  id, od, tokens),
      work, tokens,
      [&](Split& split) {
        const Dynamic last{2, MINFER_DYN_TOKENS};
        const uint32_t w = split.weight(weight, MINFER_USE_MATMUL);
        const uint32_t x = split.input(MINFER_TYPE_F32, {id, 1, tokens}, MINFER_INPUT_HIDDEN, last);
        const uint32_t ids = split.input(MINFER_TYPE_I32, {places, tokens}, MINFER_INPUT_HIDDEN,
                                         {1, MINFER_DYN_TOKENS});
        split.node(MINFER_OP_MATMUL_BY_ID, {w, x, ids},
                   split.output(MINFER_TYPE_F32, {od, places, tokens}, last));
      },
      experts);
}

/// `operands` f32 inputs of one shape and one output; `flops` for each value, where a root, exp or
/// tanh counts as one.
template <class AddNode>
void rows(Bench& bench, const char* op, int operands, int flops, AddNode add_node) {
  const int64_t n = 2048;
  const uint32_t tokens = 256;
  const double values = static_cast<double>(n) * tokens;
  const Work work = {4.0 * values * (operands + 1), flops * values};
  measure(bench, fmt::format("{} {} x {}", op, n, tokens), work, tokens, [&](Split& split) {
    const Dynamic axis{1, MINFER_DYN_TOKENS};
    std::vector<uint32_t> in;
    for (int i = 0; i < operands; ++i)
      in.push_back(split.input(MINFER_TYPE_F32, {n, tokens}, MINFER_INPUT_HIDDEN, axis));
    add_node(split, in, split.output(MINFER_TYPE_F32, {n, tokens}, axis));
  });
}

void get_rows(Bench& bench, uint32_t type) {
  const int64_t n = 2048, n_rows = 4096;
  const uint32_t tokens = 256;
  const Weight table = random_weight(bench.rng, type, n, n_rows);
  const Work work = {
      (static_cast<double>(table.file.size()) / n_rows + 4.0 * static_cast<double>(n)) * tokens, 0};
  measure(
      bench, fmt::format("GET_ROWS {} {} x {}", minfer_type_name(type), n, tokens), work, tokens,
      [&](Split& split) {
        const uint32_t w = split.weight(table, MINFER_USE_GATHER);
        const uint32_t ids =
            split.input(MINFER_TYPE_I32, {tokens}, MINFER_INPUT_HIDDEN, {0, MINFER_DYN_TOKENS});
        split.node(MINFER_OP_GET_ROWS, {w, ids},
                   split.output(MINFER_TYPE_F32, {n, tokens}, {1, MINFER_DYN_TOKENS}));
      },
      n_rows);
}

/// Operators that choose among the values of a row, or put rows side by side.
void selections(Bench& bench) {
  const Dynamic axis{1, MINFER_DYN_TOKENS};
  measure(bench, "ARG_MAX 131072 x 4", {4.0 * 131072 * 4, 0}, 4, [&](Split& split) {
    const uint32_t x = split.input(MINFER_TYPE_F32, {131072, 4}, MINFER_INPUT_HIDDEN, axis);
    split.node(MINFER_OP_ARG_MAX, {x}, split.output(MINFER_TYPE_I32, {4}, {0, MINFER_DYN_TOKENS}));
  });
  measure(bench, "TOP_K 8 of 128 x 256", {4.0 * (128 + 8) * 256, 0}, 256, [&](Split& split) {
    const uint32_t x = split.input(MINFER_TYPE_F32, {128, 256}, MINFER_INPUT_HIDDEN, axis);
    split.node(MINFER_OP_TOP_K, {x}, split.output(MINFER_TYPE_I32, {8, 256}, axis),
               minfer_top_k_params{0, 8});
  });
  measure(bench, "CONCAT 2 of 1024 x 256", {2 * 4.0 * 2048 * 256, 0}, 256, [&](Split& split) {
    const auto part = [&] {
      return split.input(MINFER_TYPE_F32, {1024, 256}, MINFER_INPUT_HIDDEN, axis);
    };
    const uint32_t a = part(), b = part();
    split.node(MINFER_OP_CONCAT, {a, b}, split.output(MINFER_TYPE_F32, {2048, 256}, axis),
               minfer_concat_params{0, 0});
  });
}

constexpr uint32_t kDim = 128;  ///< of heads
constexpr uint32_t kPage = 64;

uint32_t heads_input(Split& split, uint32_t heads, uint32_t tokens) {
  return split.input(MINFER_TYPE_F32, {kDim, heads, tokens}, MINFER_INPUT_HIDDEN,
                     {2, MINFER_DYN_TOKENS});
}

uint32_t f16_region(Split& split, uint32_t heads, uint32_t places) {
  minfer_kv_desc desc{};
  desc.type = MINFER_TYPE_F16;
  desc.n_head_kv = heads;
  desc.head_dim_k = desc.head_dim_v = kDim;
  desc.page_tokens = kPage;
  desc.n_pages = (places + kPage - 1) / kPage;
  return split.kv(desc);
}

void rope(Bench& bench) {
  const uint32_t heads = 16, tokens = 256;
  measure(
      bench, fmt::format("ROPE {} heads of {} x {}", heads, kDim, tokens),
      {2 * 4.0 * kDim * heads * tokens, 3.0 * kDim * heads * tokens}, tokens,
      [&](Split& split) {
        const uint32_t x = heads_input(split, heads, tokens);
        const uint32_t pos =
            split.input(MINFER_TYPE_I32, {tokens}, MINFER_INPUT_POS, {0, MINFER_DYN_TOKENS});
        minfer_rope_params p{};
        p.n_rot = kDim;
        p.freq_base = 10000.0f;
        p.freq_scale = p.attn_factor = 1.0f;
        split.node(MINFER_OP_ROPE, {x, pos},
                   split.output(MINFER_TYPE_F32, {kDim, heads, tokens}, {2, MINFER_DYN_TOKENS}), p);
      },
      4096);
}

void kv_store(Bench& bench) {
  const uint32_t heads = 4, tokens = 256;
  measure(bench, fmt::format("KV_STORE f16 {} heads of {} x {}", heads, kDim, tokens),
          {2 * 6.0 * kDim * heads * tokens, 0}, tokens, [&](Split& split) {
            const uint32_t k = heads_input(split, heads, tokens);
            const uint32_t v = heads_input(split, heads, tokens);
            const uint32_t slot =
                split.input(MINFER_TYPE_I64, {tokens}, MINFER_INPUT_SLOT, {0, MINFER_DYN_TOKENS});
            const uint32_t kv = f16_region(split, heads, tokens);
            split.node(MINFER_OP_KV_STORE, {k, v, slot}, MINFER_NONE, minfer_kv_params{0, kv});
          });
}

/// One token over a long context, or many tokens over themselves.
void attention(Bench& bench, uint32_t tokens, uint32_t context) {
  const uint32_t heads = 16, kv_heads = 4, dim = kDim;
  const std::string name = fmt::format("ATTENTION f16 {}/{} heads of {}, {} x {}", heads, kv_heads,
                                       dim, tokens, context);
  variant(name, [&] {
    const uint32_t pages = (context + kPage - 1) / kPage;
    Split split(tokens, 1, 1, pages);
    const Dynamic last{2, MINFER_DYN_TOKENS}, first{0, MINFER_DYN_TOKENS};
    const uint32_t kv = f16_region(split, kv_heads, context);
    const uint32_t k = heads_input(split, kv_heads, tokens);
    const uint32_t v = heads_input(split, kv_heads, tokens);
    const uint32_t q = heads_input(split, heads, tokens);
    const uint32_t pos = split.input(MINFER_TYPE_I32, {tokens}, MINFER_INPUT_POS, first);
    const uint32_t slot = split.input(MINFER_TYPE_I64, {tokens}, MINFER_INPUT_SLOT, first);
    const uint32_t q_start = split.input(MINFER_TYPE_I32, {2}, MINFER_INPUT_Q_START);
    const uint32_t kv_len =
        split.input(MINFER_TYPE_I32, {1}, MINFER_INPUT_KV_LEN, {0, MINFER_DYN_SEQS});
    const uint32_t table =
        split.input(MINFER_TYPE_I32, {pages, 1}, MINFER_INPUT_BLOCK_TABLE, {1, MINFER_DYN_SEQS});
    split.node(MINFER_OP_KV_STORE, {k, v, slot}, MINFER_NONE, minfer_kv_params{0, kv});
    minfer_attention_params p{};
    p.kv = kv;
    p.n_head = heads;
    p.scale = 0.09f;
    p.causal = 1;
    split.node(MINFER_OP_ATTENTION, {q, pos, q_start, kv_len, table},
               split.output(MINFER_TYPE_F32, {dim, heads, tokens}, last), p);
    Session session(bench.device, split);
    session.region(0).clear();
    fill(bench, session, split);
    std::vector<int32_t> positions(tokens), order(pages);
    std::iota(positions.begin(), positions.end(), static_cast<int32_t>(context - tokens));
    std::iota(order.begin(), order.end(), 0);
    session.set(pos, positions);
    session.set(slot, std::vector<int64_t>(positions.begin(), positions.end()));
    session.set(q_start, std::vector<int32_t>{0, static_cast<int32_t>(tokens)});
    session.set(kv_len, std::vector<int32_t>{static_cast<int32_t>(context)});
    session.set(table, order);
    const double seen = tokens * (context - tokens) + 0.5 * tokens * (tokens + 1.0);
    tell(
        name,
        {2.0 * 2 * context * kv_heads * dim + 8.0 * tokens * heads * dim, 4.0 * seen * heads * dim},
        time_runs(bench, session, {tokens, 1, 1, context}));
  });
}

}  // namespace

void check_speed(Bench& bench) {
  for (const uint32_t type : {MINFER_TYPE_F32, MINFER_TYPE_F16, MINFER_TYPE_Q8_0, MINFER_TYPE_Q4_0,
                              MINFER_TYPE_Q4_K, MINFER_TYPE_Q6_K}) {
    matmul(bench, type, 1);
    matmul(bench, type, 64);
  }
  matmul_by_id(bench, MINFER_TYPE_Q4_K, 1);
  matmul_by_id(bench, MINFER_TYPE_Q4_K, 64);
  attention(bench, 1, 2048);
  attention(bench, 128, 128);
  kv_store(bench);
  rope(bench);
  get_rows(bench, MINFER_TYPE_Q8_0);
  selections(bench);
  using In = const std::vector<uint32_t>&;
  rows(bench, "ADD", 2, 1, [](Split& s, In in, uint32_t out) {
    s.node(MINFER_OP_ADD, {in[0], in[1]}, out);
  });
  rows(bench, "MUL", 2, 1, [](Split& s, In in, uint32_t out) {
    s.node(MINFER_OP_MUL, {in[0], in[1]}, out);
  });
  rows(bench, "SCALE", 1, 2, [](Split& s, In in, uint32_t out) {
    s.node(MINFER_OP_SCALE, {in[0]}, out, minfer_scale_params{0, 0.5f, 1.0f, 0});
  });
  rows(bench, "RMS_NORM", 1, 3, [](Split& s, In in, uint32_t out) {
    s.node(MINFER_OP_RMS_NORM, {in[0], MINFER_NONE}, out, minfer_norm_params{0, 1e-5f, 0.0f, 0});
  });
  rows(bench, "SILU", 1, 4,
       [](Split& s, In in, uint32_t out) { s.node(MINFER_OP_SILU, {in[0]}, out); });
  rows(bench, "GELU", 1, 8, [](Split& s, In in, uint32_t out) {
    s.node(MINFER_OP_GELU, {in[0]}, out, minfer_gelu_params{0, MINFER_GELU_TANH});
  });
  rows(bench, "SOFT_CAP", 1, 3, [](Split& s, In in, uint32_t out) {
    s.node(MINFER_OP_SOFT_CAP, {in[0]}, out, minfer_soft_cap_params{0, 30.0f});
  });
  rows(bench, "SOFTMAX", 1, 5, [](Split& s, In in, uint32_t out) {
    s.node(MINFER_OP_SOFTMAX, {in[0]}, out, minfer_softmax_params{0, 1.0f});
  });
}

}  // namespace conformance
