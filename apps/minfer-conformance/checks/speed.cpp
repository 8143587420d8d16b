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
  double flops = 0;  ///< 0: none worth counting
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

void fill_with_floats(Bench& bench, Session& session, const Split& split) {
  for (uint32_t i = 0; i < split.tensors.size(); ++i) {
    const minfer_tensor& t = split.tensors[i];
    if (t.kind == MINFER_TENSOR_INPUT && t.type == MINFER_TYPE_F32)
      session.set(i, random_floats(bench.rng, t.ne[0] * t.ne[1] * t.ne[2]));
  }
}

void matmul(Bench& bench, uint32_t type, uint32_t tokens) {
  const int64_t id = 2048, od = 2048;
  const std::string name =
      fmt::format("MATMUL {} {}x{} x {}", minfer_type_name(type), id, od, tokens);
  variant(name, [&] {
    const Weight weight = random_weight(bench.rng, type, id, od);
    Split split(tokens);
    const Dynamic rows{1, MINFER_DYN_TOKENS};
    const uint32_t w = split.weight(weight, MINFER_USE_MATMUL);
    const uint32_t x = split.input(MINFER_TYPE_F32, {id, tokens}, MINFER_INPUT_HIDDEN, rows);
    split.node(MINFER_OP_MATMUL, {w, x}, split.output(MINFER_TYPE_F32, {od, tokens}, rows));
    Session session(bench.device, split);
    fill_with_floats(bench, session, split);
    const double seconds = time_runs(bench, session, {tokens, 1, 1, 0});
    tell(name,
         {static_cast<double>(weight.file.size()) + 4.0 * static_cast<double>((id + od) * tokens),
          2.0 * static_cast<double>(id * od) * tokens},
         seconds);
  });
}

/// `operands` f32 inputs of one shape and one output.
template <class AddNode>
void rows(Bench& bench, const char* op, int operands, AddNode add_node) {
  const int64_t n = 2048;
  const uint32_t tokens = 256;
  const std::string name = fmt::format("{} {} x {}", op, n, tokens);
  variant(name, [&] {
    Split split(tokens);
    const Dynamic axis{1, MINFER_DYN_TOKENS};
    std::vector<uint32_t> in;
    for (int i = 0; i < operands; ++i)
      in.push_back(split.input(MINFER_TYPE_F32, {n, tokens}, MINFER_INPUT_HIDDEN, axis));
    add_node(split, in, split.output(MINFER_TYPE_F32, {n, tokens}, axis));
    Session session(bench.device, split);
    fill_with_floats(bench, session, split);
    tell(name, {4.0 * static_cast<double>(n) * tokens * (operands + 1), 0},
         time_runs(bench, session, {tokens, 1, 1, 0}));
  });
}

/// One token over a long context, or many tokens over themselves.
void attention(Bench& bench, uint32_t tokens, uint32_t context) {
  const uint32_t heads = 16, kv_heads = 4, dim = 128, page = 64;
  const std::string name = fmt::format("ATTENTION f16 {}/{} heads of {}, {} x {}", heads, kv_heads,
                                       dim, tokens, context);
  variant(name, [&] {
    const uint32_t pages = (context + page - 1) / page;
    Split split(tokens, 1, 1, pages);
    const Dynamic last{2, MINFER_DYN_TOKENS}, first{0, MINFER_DYN_TOKENS};
    minfer_kv_desc desc{};
    desc.type = MINFER_TYPE_F16;
    desc.n_head_kv = kv_heads;
    desc.head_dim_k = desc.head_dim_v = dim;
    desc.page_tokens = page;
    desc.n_pages = pages;
    const uint32_t kv = split.kv(desc);
    const auto f32 = [&](uint32_t n) {
      return split.input(MINFER_TYPE_F32, {dim, n, tokens}, MINFER_INPUT_HIDDEN, last);
    };
    const uint32_t k = f32(kv_heads), v = f32(kv_heads), q = f32(heads);
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
    fill_with_floats(bench, session, split);
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
  attention(bench, 1, 2048);
  attention(bench, 128, 128);
  using In = const std::vector<uint32_t>&;
  rows(bench, "ADD", 2, [](Split& s, In in, uint32_t out) {
    s.node(MINFER_OP_ADD, {in[0], in[1]}, out);
  });
  rows(bench, "MUL", 2, [](Split& s, In in, uint32_t out) {
    s.node(MINFER_OP_MUL, {in[0], in[1]}, out);
  });
  rows(bench, "RMS_NORM", 1, [](Split& s, In in, uint32_t out) {
    s.node(MINFER_OP_RMS_NORM, {in[0], MINFER_NONE}, out, minfer_norm_params{0, 1e-5f, 0.0f, 0});
  });
  rows(bench, "SILU", 1,
       [](Split& s, In in, uint32_t out) { s.node(MINFER_OP_SILU, {in[0]}, out); });
  rows(bench, "GELU", 1, [](Split& s, In in, uint32_t out) {
    s.node(MINFER_OP_GELU, {in[0]}, out, minfer_gelu_params{0, MINFER_GELU_TANH});
  });
  rows(bench, "SOFTMAX", 1, [](Split& s, In in, uint32_t out) {
    s.node(MINFER_OP_SOFTMAX, {in[0]}, out, minfer_softmax_params{0, 1.0f});
  });
}

}  // namespace conformance
