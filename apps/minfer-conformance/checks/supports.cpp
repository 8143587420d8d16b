// The honesty of `supports`: yes is a promise that the engine places weights by, before it compiles
// anything; no must name what is refused, and asking may never hurt.
//
// Random graphs of one node: operators, types, shapes sensible and not.
#include <cstring>

#include "checks.h"
#include "layer.h"

namespace conformance {
namespace {

constexpr int kGraphs = 400;

/// A graph, the weights it refers to, and the inputs that must hold indices.
struct Question {
  std::string name;
  std::vector<std::unique_ptr<Weight>> weights;
  std::unique_ptr<Split> split;
};

class Asker {
 public:
  explicit Asker(std::mt19937_64& rng) : rng_(rng) {}

  Question next() {
    Question q;
    tokens_ = static_cast<uint32_t>(1 + rng_() % 40);
    q.split = std::make_unique<Split>(tokens_);
    switch (rng_() % 6) {
      case 0:
        unary(q);
        break;
      case 1:
        binary(q);
        break;
      case 2:
        norm(q);
        break;
      case 3:
        matmul(q);
        break;
      case 4:
        rope(q);
        break;
      default:
        rows(q);
    }
    // Now and then the destination is one element off.
    if (rng_() % 8 == 0) {
      minfer_tensor& out = q.split->tensors[q.split->nodes[0].dst];
      out.ne[rng_() % 2] += 1;
      q.name += ", destination off by one";
    }
    return q;
  }

 private:
  int64_t length() {
    constexpr int64_t kLengths[] = {1, 2, 3, 31, 32, 33, 64, 100, 255, 256, 257, 512, 1000};
    return kLengths[rng_() % std::size(kLengths)];
  }
  uint32_t f32_in(Question& q, int64_t n) {
    return q.split->input(MINFER_TYPE_F32, {n, tokens_}, MINFER_INPUT_HIDDEN, rows_);
  }
  uint32_t f32_out(Question& q, int64_t n) {
    return q.split->output(MINFER_TYPE_F32, {n, tokens_}, rows_);
  }
  uint32_t weight(Question& q, uint32_t type, int64_t n0, int64_t n1, uint32_t uses) {
    q.weights.push_back(std::make_unique<Weight>(random_weight(rng_, type, n0, n1)));
    return q.split->weight(*q.weights.back(), uses);
  }

  void unary(Question& q) {
    const int64_t n = length();
    constexpr uint32_t kOps[] = {MINFER_OP_SILU, MINFER_OP_GELU, MINFER_OP_SOFT_CAP,
                                 MINFER_OP_SOFTMAX, MINFER_OP_SCALE};
    const uint32_t op = kOps[rng_() % std::size(kOps)];
    const uint32_t x = f32_in(q, n), out = f32_out(q, n);
    if (op == MINFER_OP_GELU) {
      const auto kind = static_cast<uint32_t>(rng_() % 4);  // three are defined
      q.split->node(op, {x}, out, minfer_gelu_params{0, kind});
    } else if (op == MINFER_OP_SOFT_CAP) {
      q.split->node(op, {x}, out, minfer_soft_cap_params{0, 5.0f});
    } else if (op == MINFER_OP_SOFTMAX) {
      q.split->node(op, {x}, out, minfer_softmax_params{0, 1.0f});
    } else if (op == MINFER_OP_SCALE) {
      q.split->node(op, {x}, out, minfer_scale_params{0, 2.0f, 1.0f, 0});
    } else {
      q.split->node(op, {x}, out);
    }
    q.name = fmt::format("operator {} on [{}, {}]", op, n, tokens_);
  }

  void binary(Question& q) {
    const int64_t n = length(), m = rng_() % 3 == 0 ? length() : n;
    const uint32_t op = rng_() % 2 == 0 ? MINFER_OP_ADD : MINFER_OP_MUL;
    const uint32_t a = f32_in(q, n);
    q.split->node(op, {a, f32_in(q, m)}, f32_out(q, n));
    q.name = fmt::format("operator {} on rows of {} and {}", op, n, m);
  }

  void norm(Question& q) {
    const int64_t n = length(), m = rng_() % 5 == 0 ? length() : n;
    const uint32_t w = weight(q, MINFER_TYPE_F32, m, 1, MINFER_USE_PLAIN);
    q.split->node(MINFER_OP_RMS_NORM, {f32_in(q, n), w}, f32_out(q, n),
                  minfer_norm_params{0, 1e-5f, 0.0f, 0});
    q.name = fmt::format("RMS_NORM of rows of {} by {}", n, m);
  }

  void matmul(Question& q) {
    const uint32_t type = kWeightTypes[rng_() % std::size(kWeightTypes)];
    const int64_t block = minfer_type_values(type);
    const int64_t id = std::max<int64_t>(1, length() / block) * block, od = length();
    const int64_t given = rng_() % 6 == 0 ? id + block : id;
    const uint32_t w = weight(q, type, id, od, MINFER_USE_MATMUL);
    q.split->node(MINFER_OP_MATMUL, {w, f32_in(q, given)}, f32_out(q, od));
    q.name = fmt::format("MATMUL {} [{}, {}] by rows of {} x {}", minfer_type_name(type), id, od,
                         given, tokens_);
  }

  void rope(Question& q) {
    const Dynamic last{2, MINFER_DYN_TOKENS};
    const int64_t dim = length(), heads = static_cast<int64_t>(1 + rng_() % 4);
    const uint32_t x =
        q.split->input(MINFER_TYPE_F32, {dim, heads, tokens_}, MINFER_INPUT_HIDDEN, last);
    const uint32_t pos =
        q.split->input(MINFER_TYPE_I32, {tokens_}, MINFER_INPUT_POS, {0, MINFER_DYN_TOKENS});
    minfer_rope_params p{};
    p.mode = static_cast<uint32_t>(rng_() % 3);  // two are defined
    p.n_rot = static_cast<uint32_t>(length());   // may be odd, or more than there is
    p.freq_base = 10000.0f;
    p.freq_scale = p.attn_factor = 1.0f;
    q.split->node(MINFER_OP_ROPE, {x, pos},
                  q.split->output(MINFER_TYPE_F32, {dim, heads, tokens_}, last), p);
    q.name = fmt::format("ROPE mode {}, {} of {}", p.mode, p.n_rot, dim);
  }

  void rows(Question& q) {
    const int64_t n = length();
    const uint32_t x = f32_in(q, n);
    if (rng_() % 2 == 0) {
      const int64_t k = length();  // may be more than there is
      q.split->node(MINFER_OP_TOP_K, {x}, q.split->output(MINFER_TYPE_I32, {k, tokens_}, rows_),
                    minfer_top_k_params{0, static_cast<uint32_t>(k)});
      q.name = fmt::format("TOP_K {} of {}", k, n);
    } else {
      q.split->node(MINFER_OP_ARG_MAX, {x},
                    q.split->output(MINFER_TYPE_I32, {tokens_}, {0, MINFER_DYN_TOKENS}));
      q.name = fmt::format("ARG_MAX of {}", n);
    }
  }

  std::mt19937_64& rng_;
  uint32_t tokens_ = 1;
  const Dynamic rows_{1, MINFER_DYN_TOKENS};
};

void expect_kept(Bench& bench, Question& q) {
  Session session(bench.device, *q.split);
  for (uint32_t i = 0; i < q.split->tensors.size(); ++i) {
    const minfer_tensor& t = q.split->tensors[i];
    if (t.kind != MINFER_TENSOR_INPUT) continue;
    if (t.type == MINFER_TYPE_F32) {
      session.set(i, random_floats(bench.rng, t.ne[0] * t.ne[1] * t.ne[2]));
    } else {
      session.set(i, std::vector<int32_t>(static_cast<size_t>(t.ne[0]), 1));
    }
  }
  session.run({q.split->capacity.tokens, 1, 1, 0});
  session.run({0, 0, 0, 0});
}

void expect_reason(const Question& q, const minfer_verdict& v) {
  expect(v.supported == 0, fmt::format("supported is {}, expected 0 or 1", v.supported));
  expect(v.reason[0] != '\0', "no without a reason");
  expect(std::memchr(v.reason, 0, sizeof v.reason) != nullptr, "a reason without an end");
  expect(v.node == MINFER_NONE || v.node < q.split->nodes.size(),
         fmt::format("it names node {} of {}", v.node, q.split->nodes.size()));
  expect(v.tensor == MINFER_NONE || v.tensor < q.split->tensors.size(),
         fmt::format("it names tensor {} of {}", v.tensor, q.split->tensors.size()));
}

/// Every smaller bucket of a supported split must compile too.
void smaller_buckets(Bench& bench) {
  Layer layer(bench.rng);
  if (ask_support(bench.device, layer.split).supported != 1) return;
  for (uint32_t tokens = Layer::kTokens; tokens >= 1; --tokens) {
    variant(fmt::format("the layer at {} tokens", tokens), [&] {
      layer.split.capacity.tokens = tokens;
      for (minfer_tensor& t : layer.split.tensors)
        if (t.dyn_count == MINFER_DYN_TOKENS) t.ne[t.dyn_axis] = tokens;
      minfer_plan* plan = nullptr;
      minfer_plan_info info{};
      info.struct_size = sizeof info;
      MINFER_CALL(plan_compile, bench.device.handle, layer.split.abi(), &bench.device.gates, &plan,
                  &info);
      plugin().plan_destroy(plan);
    });
  }
}

}  // namespace

void check_supports(Bench& bench) {
  Asker asker(bench.rng);
  uint32_t yes = 0;
  for (int i = 0; i < kGraphs; ++i) {
    Question q = asker.next();
    variant(q.name, [&] {
      const minfer_verdict verdict = ask_support(bench.device, *q.split);
      if (verdict.supported != 1) return expect_reason(q, verdict);
      ++yes;
      expect_kept(bench, q);
    });
  }
  smaller_buckets(bench);
  listener().note(fmt::format("{} of {} random graphs are supported", yes, kGraphs));
}

}  // namespace conformance
