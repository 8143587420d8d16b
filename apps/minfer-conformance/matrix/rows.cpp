// RMS_NORM, SOFTMAX, TOP_K, ARG_MAX, CONCAT, GET_ROWS.
#include <algorithm>
#include <numeric>

#include "cases.h"

namespace conformance {
namespace {

std::vector<double> norm_reference(const std::vector<float>& x, const std::vector<float>& weight,
                                   size_t n, double eps, double offset) {
  std::vector<double> out(x.size());
  for (size_t r = 0; r < x.size(); r += n) {
    double squares = 0.0;
    for (size_t i = 0; i < n; ++i) squares += double{x[r + i]} * x[r + i];
    const double factor = 1.0 / std::sqrt(squares / static_cast<double>(n) + eps);
    for (size_t i = 0; i < n; ++i) {
      out[r + i] = x[r + i] * factor * (weight.empty() ? 1.0 : weight[i] + offset);
    }
  }
  return out;
}

void rms_norm(Bench& bench) {
  for (const int64_t n : {1, 7, 64, 100, 1536}) {
    for (const float offset : {0.0f, 1.0f}) {
      for (const bool weighted : {true, false}) {
        variant(fmt::format("rows of {}, offset {}", n, offset), [&] {
          const Weight weight = f32_weight(random_floats(bench.rng, n), n);
          Split split(6);
          const Dynamic tokens{1, MINFER_DYN_TOKENS};
          const uint32_t x = split.input(MINFER_TYPE_F32, {n, 6}, MINFER_INPUT_HIDDEN, tokens);
          const uint32_t out = split.output(MINFER_TYPE_F32, {n, 6}, tokens);
          const uint32_t w = weighted ? split.weight(weight, MINFER_USE_PLAIN) : MINFER_NONE;
          split.node(MINFER_OP_RMS_NORM, {x, w}, out, minfer_norm_params{0, 1e-6f, offset, 0});
          Session session(bench.device, split);
          const auto values = random_floats(bench.rng, n * 6, 3.0f);
          session.set(x, values);
          session.run({6, 1, 1, 0});
          expect_below(
              relative_error(session.get<float>(out),
                             norm_reference(values, weighted ? weight.values : std::vector<float>(),
                                            static_cast<size_t>(n), 1e-6, offset)),
              1e-5);
        });
      }
    }
  }
}

// Heads of q inside the joint projection of q, k and v.
void rms_norm_per_head_of_a_view(Bench& bench) {
  const Weight weight = f32_weight(random_floats(bench.rng, 24), 24);
  Split split(5);
  const uint32_t qkv =
      split.input(MINFER_TYPE_F32, {24 * 8, 5}, MINFER_INPUT_HIDDEN, {1, MINFER_DYN_TOKENS});
  const uint32_t x = split.view(qkv, {24, 3, 5}, {1, 24, 192}, 48, {2, MINFER_DYN_TOKENS});
  const uint32_t w = split.weight(weight, MINFER_USE_PLAIN);
  const uint32_t out = split.output(MINFER_TYPE_F32, {24, 3, 5}, {2, MINFER_DYN_TOKENS});
  split.node(MINFER_OP_RMS_NORM, {x, w}, out, minfer_norm_params{0, 1e-5f, 0.0f, 0});
  Session session(bench.device, split);
  const auto values = random_floats(bench.rng, 24 * 8 * 5);
  session.set(qkv, values);
  session.run({5, 1, 1, 0});
  std::vector<float> heads;
  for (size_t t = 0; t < 5; ++t) {
    heads.insert(heads.end(), values.begin() + static_cast<int64_t>(t * 192 + 48),
                 values.begin() + static_cast<int64_t>(t * 192 + 120));
  }
  expect_below(
      relative_error(session.get<float>(out), norm_reference(heads, weight.values, 24, 1e-5, 0.0)),
      1e-5);
}

// The residual stream: a sum that is normalised and read again.
void add_then_norm_keeps_both(Bench& bench) {
  const Weight weight = f32_weight(random_floats(bench.rng, 130), 130);
  Split split(9);
  const Dynamic tokens{1, MINFER_DYN_TOKENS};
  const uint32_t a = split.input(MINFER_TYPE_F32, {130, 9}, MINFER_INPUT_HIDDEN, tokens);
  const uint32_t b = split.input(MINFER_TYPE_F32, {130, 9}, MINFER_INPUT_HIDDEN, tokens);
  const uint32_t w = split.weight(weight, MINFER_USE_PLAIN);
  const uint32_t sum = split.output(MINFER_TYPE_F32, {130, 9}, tokens);
  const uint32_t out = split.output(MINFER_TYPE_F32, {130, 9}, tokens);
  split.node(MINFER_OP_ADD, {a, b}, sum);
  split.node(MINFER_OP_RMS_NORM, {sum, w}, out, minfer_norm_params{0, 1e-6f, 0.0f, 0});
  Session session(bench.device, split);
  const auto x = random_floats(bench.rng, 1170), y = random_floats(bench.rng, 1170);
  session.set(a, x);
  session.set(b, y);
  session.run({7, 1, 1, 0});
  std::vector<float> total(7 * 130);
  for (size_t i = 0; i < total.size(); ++i) total[i] = x[i] + y[i];
  std::vector<double> expected(total.begin(), total.end());
  auto normed = norm_reference(total, weight.values, 130, 1e-6, 0.0);
  expected.resize(1170, 0.0);
  normed.resize(1170, 0.0);
  expect_below(relative_error(session.get<float>(sum), expected), 1e-6);
  expect_below(relative_error(session.get<float>(out), normed), 1e-5);
}

void softmax(Bench& bench) {
  for (const int64_t n : {1, 3, 16, 100, 1000}) {
    for (const float spread : {1.0f, 200.0f}) {
      variant(fmt::format("rows of {}, spread {}", n, spread), [&] {
        Split split(4);
        const Dynamic tokens{1, MINFER_DYN_TOKENS};
        const uint32_t x = split.input(MINFER_TYPE_F32, {n, 4}, MINFER_INPUT_HIDDEN, tokens);
        const uint32_t out = split.output(MINFER_TYPE_F32, {n, 4}, tokens);
        split.node(MINFER_OP_SOFTMAX, {x}, out, minfer_softmax_params{0, 0.5f});
        Session session(bench.device, split);
        const auto values = random_floats(bench.rng, n * 4, spread);
        session.set(x, values);
        session.run({3, 1, 1, 0});
        std::vector<double> ref(values.size(), 0.0);
        for (size_t r = 0; r < 3; ++r) {
          const auto row = values.begin() + static_cast<int64_t>(r) * n;
          const double largest = *std::max_element(row, row + n);
          double sum = 0.0;
          for (int64_t i = 0; i < n; ++i) sum += std::exp(0.5 * (row[i] - largest));
          for (int64_t i = 0; i < n; ++i) {
            ref[r * static_cast<size_t>(n) + static_cast<size_t>(i)] =
                std::exp(0.5 * (row[i] - largest)) / sum;
          }
        }
        expect_below(relative_error(session.get<float>(out), ref), 1e-5);
      });
    }
  }
}

void top_k_breaks_ties_by_index(Bench& bench) {
  for (const int64_t n : {1, 8, 60, 500}) {
    for (const int64_t k : {1, 4, 8}) {
      if (k > n) continue;
      variant(fmt::format("{} of {}", k, n), [&] {
        Split split(5);
        const Dynamic tokens{1, MINFER_DYN_TOKENS};
        const uint32_t x = split.input(MINFER_TYPE_F32, {n, 5}, MINFER_INPUT_HIDDEN, tokens);
        const uint32_t out = split.output(MINFER_TYPE_I32, {k, 5}, tokens);
        split.node(MINFER_OP_TOP_K, {x}, out, minfer_top_k_params{0, static_cast<uint32_t>(k)});
        Session session(bench.device, split);
        std::vector<float> values(static_cast<size_t>(n * 5));
        for (float& v : values) v = static_cast<float>(bench.rng() % 7);  // many ties
        session.set(x, values);
        session.run({4, 1, 1, 0});
        std::vector<int32_t> expected;
        for (int64_t r = 0; r < 4; ++r) {
          std::vector<int32_t> order(static_cast<size_t>(n));
          std::iota(order.begin(), order.end(), 0);
          std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
            return values[static_cast<size_t>(r * n + a)] > values[static_cast<size_t>(r * n + b)];
          });
          expected.insert(expected.end(), order.begin(), order.begin() + k);
        }
        expected.resize(static_cast<size_t>(k * 5), 0);
        expect_equal(session.get<int32_t>(out), expected);
      });
    }
  }
}

void arg_max_takes_the_lowest_index_and_never_nan(Bench& bench) {
  for (const int64_t n : {1, 15, 16, 33, 1000, 50257}) {
    variant(fmt::format("rows of {}", n), [&] {
      Split split(1, 1, 6);
      const uint32_t x =
          split.input(MINFER_TYPE_F32, {n, 6}, MINFER_INPUT_HIDDEN, {1, MINFER_DYN_OUTS});
      const uint32_t out = split.output(MINFER_TYPE_I32, {6}, {0, MINFER_DYN_OUTS});
      split.node(MINFER_OP_ARG_MAX, {x}, out);
      Session session(bench.device, split);
      auto values = random_floats(bench.rng, n * 6);
      const auto at = [&](int64_t r, int64_t i) -> float& {
        return values[static_cast<size_t>(r * n + i)];
      };
      for (int64_t i = 0; i < n; ++i) {
        at(1, i) = static_cast<float>(bench.rng() % 3);      // ties
        at(2, i) = NAN;                                      // nothing else
        if (i % 3 != 1) at(3, i) = NAN;                      // mostly NaN, the first included
        at(4, i) = -std::numeric_limits<float>::infinity();  // all equal
      }
      session.set(x, values);
      session.run({1, 1, 5, 0});
      const auto got = session.get<int32_t>(out);
      for (int64_t r = 0; r < 5; ++r) {
        int64_t best = -1;
        for (int64_t i = 0; i < n; ++i) {
          if (!std::isnan(at(r, i)) && (best < 0 || at(r, i) > at(r, best))) best = i;
        }
        if (best >= 0) {
          expect_equal<int64_t>(got[static_cast<size_t>(r)], best, fmt::format("row {}", r));
        }
        expect_at_least(got[static_cast<size_t>(r)], 0, "index");
        expect_below(got[static_cast<size_t>(r)], static_cast<double>(n), "index");
      }
      expect_equal(got[5], 0, "past the valid rows");
    });
  }
}

void concat_along_every_axis(Bench& bench) {
  for (uint32_t axis = 0; axis < 4; ++axis) {
    variant(fmt::format("axis {}", axis), [&] {
      Dims a{5, 3, 2, 2}, b = a, joined = a;
      b.ne[axis] = 4;
      joined.ne[axis] = a.ne[axis] + 4;
      Split split;
      const uint32_t ta = split.input(MINFER_TYPE_F32, a), tb = split.input(MINFER_TYPE_F32, b);
      const uint32_t out = split.output(MINFER_TYPE_F32, joined);
      split.node(MINFER_OP_CONCAT, {ta, tb}, out, minfer_concat_params{0, axis});
      Session session(bench.device, split);
      const auto x = random_floats(bench.rng, a.elements()),
                 y = random_floats(bench.rng, b.elements());
      session.set(ta, x);
      session.set(tb, y);
      session.run({});
      std::vector<float> expected;
      const auto at = [](const Dims& d, const int64_t* i) {
        return static_cast<size_t>(i[0] + d.ne[0] * (i[1] + d.ne[1] * (i[2] + d.ne[2] * i[3])));
      };
      int64_t i[4];
      for (i[3] = 0; i[3] < joined.ne[3]; ++i[3]) {
        for (i[2] = 0; i[2] < joined.ne[2]; ++i[2]) {
          for (i[1] = 0; i[1] < joined.ne[1]; ++i[1]) {
            for (i[0] = 0; i[0] < joined.ne[0]; ++i[0]) {
              int64_t j[4] = {i[0], i[1], i[2], i[3]};
              const bool second = j[axis] >= a.ne[axis];
              if (second) j[axis] -= a.ne[axis];
              expected.push_back(second ? y[at(b, j)] : x[at(a, j)]);
            }
          }
        }
      }
      expect_equal(session.get<float>(out), expected);
    });
  }
}

void get_rows_of_a_weight_is_exact(Bench& bench) {
  for (const uint32_t type : kWeightTypes) {
    variant(minfer_type_name(type), [&] {
      const Weight table = random_weight(bench.rng, type, 512, 37);
      Split split(8);
      const uint32_t w = split.weight(table, MINFER_USE_GATHER);
      const uint32_t list =
          split.input(MINFER_TYPE_I32, {8}, MINFER_INPUT_TOKENS, {0, MINFER_DYN_TOKENS});
      const uint32_t out = split.output(MINFER_TYPE_F32, {512, 8}, {1, MINFER_DYN_TOKENS});
      split.node(MINFER_OP_GET_ROWS, {w, list}, out);
      Session session(bench.device, split);
      const std::vector<int32_t> rows = {0, 36, 5, 5, 17, 31, 32, 0};
      session.set(list, rows);
      session.run({7, 1, 1, 0});
      std::vector<float> expected;
      for (size_t i = 0; i < 7; ++i) {
        expected.insert(expected.end(), table.row(rows[i]), table.row(rows[i]) + 512);
      }
      expected.resize(512 * 8, 0.0f);
      expect_equal(session.get<float>(out), expected);
    });
  }
}

void get_rows_of_an_activation(Bench& bench) {
  Split split(6, 1, 4);
  const uint32_t x =
      split.input(MINFER_TYPE_F32, {33, 6}, MINFER_INPUT_HIDDEN, {1, MINFER_DYN_TOKENS});
  const uint32_t doubled = split.inner(MINFER_TYPE_F32, {33, 6}, {1, MINFER_DYN_TOKENS});
  const uint32_t list =
      split.input(MINFER_TYPE_I32, {4}, MINFER_INPUT_OUT_ROWS, {0, MINFER_DYN_OUTS});
  const uint32_t out = split.output(MINFER_TYPE_F32, {33, 4}, {1, MINFER_DYN_OUTS});
  split.node(MINFER_OP_ADD, {x, x}, doubled);
  split.node(MINFER_OP_GET_ROWS, {doubled, list}, out);
  Session session(bench.device, split);
  const auto values = random_floats(bench.rng, 33 * 6);
  session.set(x, values);
  session.set(list, std::vector<int32_t>{5, 0, 5, 0});
  for (const uint32_t outs : {0u, 3u}) {
    session.run({6, 1, outs, 0});
    std::vector<float> expected;
    for (const size_t row : {5, 0, 5}) {
      for (size_t i = 0; i < 33 && expected.size() < outs * 33; ++i) {
        expected.push_back(2.0f * values[row * 33 + i]);
      }
    }
    expected.resize(33 * 4, 0.0f);
    expect_equal(session.get<float>(out), expected);
  }
}

constexpr Case kCases[] = {
    {"rows.RmsNorm", rms_norm},
    {"rows.RmsNormPerHeadOfAView", rms_norm_per_head_of_a_view},
    {"rows.AddThenNormKeepsBoth", add_then_norm_keeps_both},
    {"rows.Softmax", softmax},
    {"rows.TopKBreaksTiesByIndex", top_k_breaks_ties_by_index},
    {"rows.ArgMaxTakesTheLowestIndexAndNeverNan", arg_max_takes_the_lowest_index_and_never_nan},
    {"rows.ConcatAlongEveryAxis", concat_along_every_axis},
    {"rows.GetRowsOfAWeightIsExact", get_rows_of_a_weight_is_exact},
    {"rows.GetRowsOfAnActivation", get_rows_of_an_activation},
};

}  // namespace

std::span<const Case> row_cases() {
  return kCases;
}

}  // namespace conformance
