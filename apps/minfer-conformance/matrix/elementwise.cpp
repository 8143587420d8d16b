// ADD, MUL, SCALE, SILU, GELU, SOFT_CAP: shapes, repetition, views, valid counts.
#include <functional>

#include "cases.h"

namespace conformance {
namespace {

std::vector<double> binary_reference(const std::vector<float>& a, const Dims& da,
                                     const std::vector<float>& b, const Dims& db, bool add) {
  std::vector<double> out;
  for (int64_t i3 = 0; i3 < da.ne[3]; ++i3) {
    for (int64_t i2 = 0; i2 < da.ne[2]; ++i2) {
      for (int64_t i1 = 0; i1 < da.ne[1]; ++i1) {
        for (int64_t i0 = 0; i0 < da.ne[0]; ++i0) {
          const auto j = [&](int64_t i, int axis) { return db.ne[axis] == 1 ? 0 : i; };
          const double x = a[out.size()];
          const double y = b[static_cast<size_t>(
              j(i0, 0) + db.ne[0] * (j(i1, 1) + db.ne[1] * (j(i2, 2) + db.ne[2] * j(i3, 3))))];
          out.push_back(add ? x + y : x * y);
        }
      }
    }
  }
  return out;
}

void add_and_mul_repeat_the_second_operand(Bench& bench) {
  const Dims shapes[][2] = {{{1}, {1}},
                            {{17}, {17}},
                            {{64, 3}, {64}},
                            {{33, 5}, {1, 5}},
                            {{7, 5, 3}, {7, 1, 3}},
                            {{130, 2, 2, 3}, {1, 1, 1, 1}},
                            {{3, 4, 5, 2}, {3, 4, 5, 2}},
                            {{1, 9}, {1, 9}}};
  for (const auto& [da, db] : shapes) {
    for (const bool add : {true, false}) {
      variant(fmt::format("{} [{}, {}]", add ? "add" : "mul", da.ne[0], da.ne[1]), [&] {
        Split split;
        const uint32_t a = split.input(MINFER_TYPE_F32, da), b = split.input(MINFER_TYPE_F32, db);
        const uint32_t out = split.output(MINFER_TYPE_F32, da);
        split.node(add ? MINFER_OP_ADD : MINFER_OP_MUL, {a, b}, out);
        Session session(bench.device, split);
        const auto x = random_floats(bench.rng, da.elements()),
                   y = random_floats(bench.rng, db.elements());
        session.set(a, x);
        session.set(b, y);
        session.run({});
        expect_below(relative_error(session.get<float>(out), binary_reference(x, da, y, db, add)),
                     1e-6);
      });
    }
  }
}

void add_takes_a_weight(Bench& bench) {
  const Weight bias = f32_weight(random_floats(bench.rng, 70), 70);
  Split split(4);
  const uint32_t x =
      split.input(MINFER_TYPE_F32, {70, 4}, MINFER_INPUT_HIDDEN, {1, MINFER_DYN_TOKENS});
  const uint32_t w = split.weight(bias, MINFER_USE_PLAIN);
  const uint32_t out = split.output(MINFER_TYPE_F32, {70, 4}, {1, MINFER_DYN_TOKENS});
  split.node(MINFER_OP_ADD, {x, w}, out);
  Session session(bench.device, split);
  const auto values = random_floats(bench.rng, 280);
  session.set(x, values);
  session.run({4, 1, 1, 0});
  expect_below(relative_error(session.get<float>(out),
                              binary_reference(values, {70, 4}, bias.values, {70}, true)),
               1e-6);
}

// One operator of one operand over the rows that are valid; the others must read as zeros.
void check_unary(Device& device, std::mt19937_64& rng, float spread, double tolerance,
                 const std::function<void(Split&, uint32_t, uint32_t)>& add_node,
                 const std::function<double(double)>& reference, double least_share = 0.02) {
  for (const int64_t n : {1, 5, 16, 31, 257}) {
    for (const uint32_t valid : {0u, 1u, 6u, 7u}) {
      variant(fmt::format("rows of {}, {} of 7 valid", n, valid), [&] {
        Split split(7);
        const Dynamic tokens{1, MINFER_DYN_TOKENS};
        const uint32_t x = split.input(MINFER_TYPE_F32, {n, 7}, MINFER_INPUT_HIDDEN, tokens);
        const uint32_t out = split.output(MINFER_TYPE_F32, {n, 7}, tokens);
        add_node(split, x, out);
        Session session(device, split);
        auto values = random_floats(rng, n * 7, spread);
        for (size_t i = static_cast<size_t>(n) * valid; i < values.size(); ++i) values[i] = NAN;
        session.set(x, values);
        session.run({valid, 1, 1, 0});
        std::vector<double> ref(values.size(), 0.0);
        double input_norm = 0.0;
        for (size_t i = 0; i < static_cast<size_t>(n) * valid; ++i) {
          ref[i] = reference(values[i]);
          input_norm += static_cast<double>(values[i]) * values[i];
        }
        // Far below zero a gated unit is the difference of nearly equal numbers: a row of few
        // values is judged against a share of its input, not against a result that has all but
        // vanished.
        const double least_norm = std::max(1e-30, least_share * std::sqrt(input_norm));
        expect_below(relative_error(session.get<float>(out), ref, least_norm), tolerance);
      });
    }
  }
}

void scale(Bench& bench) {
  check_unary(
      bench.device, bench.rng, 1.0f, 1e-6,
      [](Split& split, uint32_t x, uint32_t out) {
        split.node(MINFER_OP_SCALE, {x}, out, minfer_scale_params{0, 2.5f, -0.75f, 0});
      },
      [](double x) { return x * 2.5 - 0.75; }, 1.0);  // the two terms may cancel
}

void silu(Bench& bench) {
  for (const float spread : {0.1f, 3.0f, 60.0f}) {
    check_unary(
        bench.device, bench.rng, spread, 1e-5,
        [](Split& split, uint32_t x, uint32_t out) { split.node(MINFER_OP_SILU, {x}, out); },
        [](double x) { return x / (1.0 + std::exp(-x)); });
  }
}

void gelu(Bench& bench) {
  const double root = std::sqrt(2.0 / M_PI);
  const std::function<double(double)> kinds[] = {
      [=](double x) { return 0.5 * x * (1.0 + std::tanh(root * (x + 0.044715 * x * x * x))); },
      [](double x) { return 0.5 * x * (1.0 + std::erf(x / std::sqrt(2.0))); },
      [](double x) { return x / (1.0 + std::exp(-1.702 * x)); }};
  for (uint32_t kind = 0; kind < 3; ++kind) {
    for (const float spread : {0.1f, 2.0f, 30.0f}) {
      variant(fmt::format("kind {}, spread {}", kind, spread), [&] {
        check_unary(
            bench.device, bench.rng, spread, 1e-5,
            [=](Split& split, uint32_t x, uint32_t out) {
              split.node(MINFER_OP_GELU, {x}, out, minfer_gelu_params{0, kind});
            },
            kinds[kind]);
      });
    }
  }
}

void soft_cap(Bench& bench) {
  for (const float spread : {0.5f, 40.0f, 1000.0f}) {
    check_unary(
        bench.device, bench.rng, spread, 1e-5,
        [](Split& split, uint32_t x, uint32_t out) {
          split.node(MINFER_OP_SOFT_CAP, {x}, out, minfer_soft_cap_params{0, 30.0f});
        },
        [](double x) { return 30.0 * std::tanh(x / 30.0); });
  }
}

// Reads a strided view, writes into a view in the middle of a larger tensor, and leaves the rest.
void views_read_and_write_only_what_they_cover(Bench& bench) {
  Split split;
  const uint32_t owner_x = split.input(MINFER_TYPE_F32, {50, 4, 3});
  const uint32_t x = split.view(owner_x, {13, 4, 3}, {1, 50, 200}, 20);
  const uint32_t owner_out = split.output(MINFER_TYPE_F32, {40, 14});
  const uint32_t out = split.view(owner_out, {13, 4, 3}, {1, 40, 160}, 47);
  split.node(MINFER_OP_SILU, {x}, out);
  Session session(bench.device, split);
  const auto values = random_floats(bench.rng, 600);
  session.set(owner_x, values);
  session.run({});
  const auto got = session.get<float>(owner_out);
  std::vector<bool> covered(got.size(), false);
  for (size_t k = 0; k < 3; ++k) {
    for (size_t j = 0; j < 4; ++j) {
      for (size_t i = 0; i < 13; ++i) {
        const size_t at = 47 + i + 40 * j + 160 * k;
        const double v = values[20 + i + 50 * j + 200 * k];
        expect_below(std::fabs(got[at] - v / (1.0 + std::exp(-v))), 1e-5, "difference");
        covered[at] = true;
      }
    }
  }
  for (size_t i = 0; i < got.size(); ++i) {
    expect(covered[i] != std::isnan(got[i]),
           fmt::format("element {} is {}, and the view {} it", i, got[i],
                       covered[i] ? "covers" : "does not cover"));
  }
}

// SILU and MUL, GELU and MUL: fused or not, on either side, with and without another reader.
void gated_pairs(Bench& bench) {
  for (const bool gelu : {false, true}) {
    for (const bool swapped : {false, true}) {
      for (const bool also_read : {false, true}) {
        variant(fmt::format("{}{}{}", gelu ? "gelu" : "silu", swapped ? " swapped" : "",
                            also_read ? " also read" : ""),
                [&] {
                  Split split(5);
                  const Dynamic tokens{1, MINFER_DYN_TOKENS};
                  const uint32_t gate =
                      split.input(MINFER_TYPE_F32, {96, 5}, MINFER_INPUT_HIDDEN, tokens);
                  const uint32_t up =
                      split.input(MINFER_TYPE_F32, {96, 5}, MINFER_INPUT_HIDDEN, tokens);
                  const uint32_t act = also_read ? split.output(MINFER_TYPE_F32, {96, 5}, tokens)
                                                 : split.inner(MINFER_TYPE_F32, {96, 5}, tokens);
                  const uint32_t out = split.output(MINFER_TYPE_F32, {96, 5}, tokens);
                  if (gelu) {
                    split.node(MINFER_OP_GELU, {gate}, act, minfer_gelu_params{0, MINFER_GELU_ERF});
                  } else {
                    split.node(MINFER_OP_SILU, {gate}, act);
                  }
                  split.node(
                      MINFER_OP_MUL,
                      swapped ? std::vector<uint32_t>{up, act} : std::vector<uint32_t>{act, up},
                      out);
                  Session session(bench.device, split);
                  const auto g = random_floats(bench.rng, 480), u = random_floats(bench.rng, 480);
                  session.set(gate, g);
                  session.set(up, u);
                  session.run({4, 1, 1, 0});
                  std::vector<double> ref(480, 0.0);
                  for (size_t i = 0; i < 4 * 96; ++i) {
                    const double x = g[i];
                    const double a = gelu ? 0.5 * x * (1.0 + std::erf(x / std::sqrt(2.0)))
                                          : x / (1.0 + std::exp(-x));
                    ref[i] = a * u[i];
                  }
                  expect_below(relative_error(session.get<float>(out), ref), 1e-5);
                });
      }
    }
  }
}

constexpr Case kCases[] = {
    {"elementwise.AddAndMulRepeatTheSecondOperand", add_and_mul_repeat_the_second_operand},
    {"elementwise.AddTakesAWeight", add_takes_a_weight},
    {"elementwise.Scale", scale},
    {"elementwise.Silu", silu},
    {"elementwise.Gelu", gelu},
    {"elementwise.SoftCap", soft_cap},
    {"elementwise.ViewsReadAndWriteOnlyWhatTheyCover", views_read_and_write_only_what_they_cover},
    {"elementwise.GatedPairs", gated_pairs},
};

}  // namespace

std::span<const Case> elementwise_cases() {
  return kCases;
}

}  // namespace conformance
