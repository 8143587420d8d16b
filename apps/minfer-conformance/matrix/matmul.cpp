// MATMUL and MATMUL_BY_ID: every weight type, odd shapes, biases, strided results, shared
// activations.
#include "cases.h"

namespace conformance {
namespace {

std::vector<double> matmul_reference(const Weight& w, const float* x, int64_t nt,
                                     const std::vector<float>& bias, int64_t row0 = 0,
                                     int64_t rows = -1) {
  std::vector<double> out;
  const int64_t id = w.ne[0];
  if (rows < 0) rows = w.ne[1];
  for (int64_t t = 0; t < nt; ++t) {
    for (int64_t o = 0; o < rows; ++o) {
      double sum = bias.empty() ? 0.0 : bias[static_cast<size_t>(o)];
      const float* row = w.row(row0 + o);
      for (int64_t i = 0; i < id; ++i) sum += double{row[i]} * x[t * id + i];
      out.push_back(sum);
    }
  }
  return out;
}

// What ‖out‖ is expected to be for nt rows of unit variance. A single output can be far smaller by
// chance, which says nothing about the kernel.
double expected_norm(const Weight& w, int64_t nt) {
  double squares = 0.0;
  for (float value : w.values) squares += double{value} * value;
  return std::sqrt(squares * static_cast<double>(nt));
}

// The tolerances of docs/operators.md. They are about norms of many outputs; the error of a few is
// that of a few draws, and can be larger by chance.
double tolerance(uint32_t type, bool reference, int64_t outputs = 1000) {
  const double chance = 1.0 + 2.0 / std::sqrt(static_cast<double>(std::max<int64_t>(1, outputs)));
  if (reference || type == MINFER_TYPE_F32) return 1e-5 * chance;
  return (type == MINFER_TYPE_F16 || type == MINFER_TYPE_BF16 ? 1e-3 : 2e-2) * chance;
}

int64_t block_of(uint32_t type) {
  return std::max<int64_t>(32, minfer_type_values(type));
}

void every_type_over_shapes(Bench& bench) {
  struct Shape {
    int64_t blocks, od;
    uint32_t nt;
  };
  const Shape shapes[] = {{1, 1, 1},  {2, 16, 1}, {3, 33, 1},  {5, 100, 2}, {2, 17, 3}, {3, 64, 4},
                          {1, 31, 7}, {2, 48, 8}, {4, 50, 17}, {3, 95, 33}, {2, 40, 70}};
  for (const uint32_t type : kWeightTypes) {
    for (const Shape& shape : shapes) {
      const int64_t id = shape.blocks * block_of(type);
      variant(fmt::format("{} [{}, {}] x {}", minfer_type_name(type), id, shape.od, shape.nt), [&] {
        const Weight weight = random_weight(bench.rng, type, id, shape.od);
        const Weight bias = f32_weight(random_floats(bench.rng, shape.od), shape.od);
        Split split(shape.nt + 2);
        const Dynamic tokens{1, MINFER_DYN_TOKENS};
        const uint32_t w = split.weight(weight, MINFER_USE_MATMUL);
        const uint32_t b = split.weight(bias, MINFER_USE_PLAIN);
        const uint32_t x =
            split.input(MINFER_TYPE_F32, {id, shape.nt + 2}, MINFER_INPUT_HIDDEN, tokens);
        const uint32_t plain = split.output(MINFER_TYPE_F32, {shape.od, shape.nt + 2}, tokens);
        const uint32_t biased = split.output(MINFER_TYPE_F32, {shape.od, shape.nt + 2}, tokens);
        split.node(MINFER_OP_MATMUL, {w, x}, plain);
        split.node(MINFER_OP_MATMUL, {w, x, b}, biased);
        Session session(bench.device, split);
        const auto values = random_floats(bench.rng, id * (shape.nt + 2));
        session.set(x, values);
        session.run({shape.nt, 1, 1, 0});
        auto ref = matmul_reference(weight, values.data(), shape.nt, {});
        ref.resize(static_cast<size_t>(shape.od * (shape.nt + 2)), 0.0);
        const double limit = tolerance(type, bench.exact, shape.od * shape.nt);
        const double norm = expected_norm(weight, shape.nt);
        expect_below(relative_error(session.get<float>(plain), ref, norm), limit, session.label(0));
        ref = matmul_reference(weight, values.data(), shape.nt, bias.values);
        ref.resize(static_cast<size_t>(shape.od * (shape.nt + 2)), 0.0);
        expect_below(relative_error(session.get<float>(biased), ref, norm), limit,
                     session.label(1));
      });
    }
  }
}

// Rows of f32 and f16 need no multiple of anything.
void odd_rows_of_plain_types(Bench& bench) {
  for (const uint32_t type : {MINFER_TYPE_F32, MINFER_TYPE_F16, MINFER_TYPE_BF16}) {
    for (const int64_t id : {1, 3, 15, 47, 129}) {
      variant(fmt::format("{} rows of {}", minfer_type_name(type), id), [&] {
        const Weight weight = random_weight(bench.rng, type, id, 19);
        Split split(3);
        const uint32_t w = split.weight(weight, MINFER_USE_MATMUL);
        const uint32_t x = split.input(MINFER_TYPE_F32, {id, 3});
        const uint32_t out = split.output(MINFER_TYPE_F32, {19, 3});
        split.node(MINFER_OP_MATMUL, {w, x}, out);
        Session session(bench.device, split);
        const auto values = random_floats(bench.rng, id * 3);
        session.set(x, values);
        session.run({3, 1, 1, 0});
        expect_below(
            relative_error(session.get<float>(out), matmul_reference(weight, values.data(), 3, {})),
            tolerance(type, bench.exact));
      });
    }
  }
}

// q, k and v of one activation, each into its part of a joint tensor, from a strided activation.
void shared_activation_and_strided_results(Bench& bench) {
  const int64_t id = 256, nt = 5;
  const uint32_t types[] = {MINFER_TYPE_Q4_K, MINFER_TYPE_Q6_K, MINFER_TYPE_F32};
  const int64_t rows[] = {64, 24, 33};
  std::vector<Weight> weights;
  for (int i = 0; i < 3; ++i) weights.push_back(random_weight(bench.rng, types[i], id, rows[i]));
  Split split(nt);
  const Dynamic tokens{1, MINFER_DYN_TOKENS};
  const uint32_t owner = split.input(MINFER_TYPE_F32, {id + 40, nt}, MINFER_INPUT_HIDDEN, tokens);
  const uint32_t x = split.view(owner, {id, nt}, {1, id + 40}, 24, tokens);
  const uint32_t joint = split.output(MINFER_TYPE_F32, {128, nt}, tokens);
  int64_t at = 0;
  for (size_t i = 0; i < 3; ++i) {
    const uint32_t out = split.view(joint, {rows[i], nt}, {1, 128}, at, tokens);
    split.node(MINFER_OP_MATMUL, {split.weight(weights[i], MINFER_USE_MATMUL), x}, out);
    at += rows[i];
  }
  Session session(bench.device, split);
  const auto values = random_floats(bench.rng, (id + 40) * nt);
  session.set(owner, values);
  session.run({nt, 1, 1, 0});
  std::vector<float> dense;
  for (int64_t t = 0; t < nt; ++t) {
    const auto row = values.begin() + t * (id + 40) + 24;
    dense.insert(dense.end(), row, row + id);
  }
  const auto got = session.get<float>(joint);
  at = 0;
  for (size_t i = 0; i < 3; ++i) {
    std::vector<float> part;
    for (int64_t t = 0; t < nt; ++t) {
      part.insert(part.end(), got.begin() + t * 128 + at, got.begin() + t * 128 + at + rows[i]);
    }
    expect_below(relative_error(part, matmul_reference(weights[i], dense.data(), nt, {}),
                                expected_norm(weights[i], nt)),
                 tolerance(types[i], bench.exact));
    at += rows[i];
  }
  for (size_t t = 0; t < static_cast<size_t>(nt); ++t) {
    for (size_t i = 121; i < 128; ++i)
      expect(std::isnan(got[t * 128 + i]), "a gap between views was written");
  }
}

// A tied embedding: one resident copy, multiplied and gathered.
void tied_weight_is_held_once(Bench& bench) {
  const Weight table = random_weight(bench.rng, MINFER_TYPE_Q8_0, 64, 45);
  Split split(3);
  const Dynamic tokens{1, MINFER_DYN_TOKENS};
  const uint32_t w = split.weight(table, MINFER_USE_MATMUL | MINFER_USE_GATHER);
  const uint32_t list =
      split.input(MINFER_TYPE_I32, {3}, MINFER_INPUT_TOKENS, {0, MINFER_DYN_TOKENS});
  const uint32_t rows = split.output(MINFER_TYPE_F32, {64, 3}, tokens);
  const uint32_t out = split.output(MINFER_TYPE_F32, {45, 3}, tokens);
  split.node(MINFER_OP_GET_ROWS, {w, list}, rows);
  split.node(MINFER_OP_MATMUL, {w, rows}, out);
  Session session(bench.device, split);
  session.set(list, std::vector<int32_t>{44, 0, 7});
  session.run({3, 1, 1, 0});
  std::vector<float> gathered;
  for (const int64_t r : {44, 0, 7})
    gathered.insert(gathered.end(), table.row(r), table.row(r) + 64);
  expect_equal(session.get<float>(rows), gathered);
  expect_below(
      relative_error(session.get<float>(out), matmul_reference(table, gathered.data(), 3, {})),
      tolerance(MINFER_TYPE_Q8_0, bench.exact));
}

double activation(bool gelu, double x) {
  return gelu ? 0.5 * x * (1.0 + std::erf(x / std::sqrt(2.0))) : x / (1.0 + std::exp(-x));
}

// The first half of a gated FFN, which backends may do in one go: types alike and not, a bias on
// one side, an activation or a product that is read elsewhere.
void gated_product_of_two_matrices(Bench& bench) {
  const int64_t id = 256, od = 75;
  for (const auto& [gate_type, up_type] :
       {std::pair{MINFER_TYPE_F32, MINFER_TYPE_F32}, std::pair{MINFER_TYPE_Q4_K, MINFER_TYPE_Q4_K},
        std::pair{MINFER_TYPE_Q8_0, MINFER_TYPE_Q5_0},
        std::pair{MINFER_TYPE_F32, MINFER_TYPE_Q6_K}}) {
    for (const uint32_t nt : {1u, 5u, 66u}) {
      for (const int form : {0, 1, 2, 3}) {
        variant(
            fmt::format("{}, {} x {}, form {}", minfer_type_name(gate_type),
                        minfer_type_name(up_type), nt, form),
            [&] {
              const bool gelu = form == 1;
              const Weight gate_w = random_weight(bench.rng, gate_type, id, od);
              const Weight up_w = random_weight(bench.rng, up_type, id, od);
              const Weight bias = f32_weight(random_floats(bench.rng, od), od);
              Split split(nt + 1);
              const Dynamic tokens{1, MINFER_DYN_TOKENS};
              const Dims wide{od, nt + 1};
              const uint32_t x =
                  split.input(MINFER_TYPE_F32, {id, nt + 1}, MINFER_INPUT_HIDDEN, tokens);
              const uint32_t gate = form == 2 ? split.output(MINFER_TYPE_F32, wide, tokens)
                                              : split.inner(MINFER_TYPE_F32, wide, tokens);
              const uint32_t act = split.inner(MINFER_TYPE_F32, wide, tokens);
              const uint32_t up = split.inner(MINFER_TYPE_F32, wide, tokens);
              const uint32_t out = split.output(MINFER_TYPE_F32, wide, tokens);
              std::vector<uint32_t> gate_sources = {split.weight(gate_w, MINFER_USE_MATMUL), x};
              if (form == 3) gate_sources.push_back(split.weight(bias, MINFER_USE_PLAIN));
              split.node(MINFER_OP_MATMUL, {split.weight(up_w, MINFER_USE_MATMUL), x}, up);
              split.node(MINFER_OP_MATMUL, gate_sources, gate);
              if (gelu) {
                split.node(MINFER_OP_GELU, {gate}, act, minfer_gelu_params{0, MINFER_GELU_ERF});
              } else {
                split.node(MINFER_OP_SILU, {gate}, act);
              }
              split.node(MINFER_OP_MUL, {act, up}, out);
              Session session(bench.device, split);
              // Small enough that the activation's slope does not magnify the rounding of the gate.
              const auto values = random_floats(bench.rng, id * (nt + 1), 0.05f);
              session.set(x, values);
              session.run({nt, 1, 1, 0});
              const auto g = matmul_reference(gate_w, values.data(), nt,
                                              form == 3 ? bias.values : std::vector<float>());
              const auto u = matmul_reference(up_w, values.data(), nt, {});
              std::vector<double> ref(static_cast<size_t>(od * (nt + 1)), 0.0);
              for (size_t i = 0; i < g.size(); ++i) ref[i] = activation(gelu, g[i]) * u[i];
              const double limit =
                  2 * std::max(tolerance(gate_type, bench.exact), tolerance(up_type, bench.exact));
              expect_below(relative_error(session.get<float>(out), ref), limit, session.label(1));
              if (form == 2) {
                auto padded = g;
                padded.resize(ref.size(), 0.0);
                expect_below(relative_error(session.get<float>(gate), padded), limit);
              }
            });
      }
    }
  }
}

void by_id_picks_experts(Bench& bench) {
  for (const uint32_t type :
       {MINFER_TYPE_F32, MINFER_TYPE_Q4_K, MINFER_TYPE_Q6_K, MINFER_TYPE_MXFP4}) {
    for (const int64_t places : {1, 3}) {
      for (const bool shared : {true, false}) {
        for (const uint32_t nt : {0u, 1u, 6u, 29u}) {
          constexpr int64_t id = 256, od = 37, experts = 5;
          variant(fmt::format("{} places {} shared {} tokens {}", minfer_type_name(type), places,
                              shared, nt),
                  [&] {
                    const Weight weight = random_weight(bench.rng, type, id, od, experts);
                    const int64_t width = shared ? 1 : places;
                    Split split(30);
                    const uint32_t w = split.weight(weight, MINFER_USE_MATMUL);
                    const uint32_t x = split.input(MINFER_TYPE_F32, {id, width, 30},
                                                   MINFER_INPUT_HIDDEN, {2, MINFER_DYN_TOKENS});
                    const uint32_t ids = split.input(MINFER_TYPE_I32, {places, 30},
                                                     MINFER_INPUT_HIDDEN, {1, MINFER_DYN_TOKENS});
                    const uint32_t out =
                        split.output(MINFER_TYPE_F32, {od, places, 30}, {2, MINFER_DYN_TOKENS});
                    split.node(MINFER_OP_MATMUL_BY_ID, {w, x, ids}, out);
                    Session session(bench.device, split);
                    const auto values = random_floats(bench.rng, id * width * 30);
                    std::vector<int32_t> picks(static_cast<size_t>(places) * 30);
                    for (int32_t& pick : picks) pick = static_cast<int32_t>(bench.rng() % experts);
                    session.set(x, values);
                    session.set(ids, picks);
                    session.run({nt, 1, 1, 0});
                    std::vector<double> ref;
                    for (int64_t t = 0; t < nt; ++t) {
                      for (int64_t p = 0; p < places; ++p) {
                        const int64_t e = picks[static_cast<size_t>(t * places + p)];
                        const float* row = values.data() + (t * width + (shared ? 0 : p)) * id;
                        const auto part = matmul_reference(weight, row, 1, {}, e * od, od);
                        ref.insert(ref.end(), part.begin(), part.end());
                      }
                    }
                    ref.resize(static_cast<size_t>(od * places * 30), 0.0);
                    const double norm =
                        expected_norm(weight, nt * places) / std::sqrt(double{experts});
                    expect_below(relative_error(session.get<float>(out), ref, norm),
                                 tolerance(type, bench.exact, od * places * nt));
                  });
        }
      }
    }
  }
}

constexpr Case kCases[] = {
    {"matmul.EveryTypeOverShapes", every_type_over_shapes},
    {"matmul.OddRowsOfPlainTypes", odd_rows_of_plain_types},
    {"matmul.SharedActivationAndStridedResults", shared_activation_and_strided_results},
    {"matmul.TiedWeightIsHeldOnce", tied_weight_is_held_once},
    {"matmul.GatedProductOfTwoMatrices", gated_product_of_two_matrices},
    {"matmul.ByIdPicksExperts", by_id_picks_experts},
};

}  // namespace

std::span<const Case> matmul_cases() {
  return kCases;
}

}  // namespace conformance
