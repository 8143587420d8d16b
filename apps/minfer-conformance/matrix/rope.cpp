// ROPE: both pairings, partial rotation, frequency factors, linear and YaRN scaling, far positions.
#include "cases.h"

namespace conformance {
namespace {

std::vector<double> rope_reference(const std::vector<float>& x, int64_t dim, int64_t heads,
                                   const std::vector<int32_t>& pos,
                                   const std::vector<float>& factors, const minfer_rope_params& p) {
  std::vector<double> out(x.begin(), x.end());
  const double n = p.n_rot;
  const auto dimension = [&](double beta) {
    return n * std::log(p.n_ctx_orig / (2 * M_PI * beta)) / (2 * std::log(double{p.freq_base}));
  };
  double magnitude = p.attn_factor;
  double low = 0, high = 0;
  if (p.ext_factor != 0) {
    magnitude *= 1 + 0.1 * std::log(1 / double{p.freq_scale});
    low = std::min(std::max(std::floor(dimension(p.beta_fast)), 0.0), n - 1);
    high = std::min(std::max(std::ceil(dimension(p.beta_slow)), 0.0), n - 1);
  }
  for (size_t t = 0; t < pos.size(); ++t) {
    for (int64_t h = 0; h < heads; ++h) {
      const size_t at =
          (t * static_cast<size_t>(heads) + static_cast<size_t>(h)) * static_cast<size_t>(dim);
      for (uint32_t i = 0; i < p.n_rot / 2; ++i) {
        const double theta = pos[t] * std::pow(double{p.freq_base}, -2.0 * i / n) /
                             (factors.empty() ? 1.0 : factors[i]);
        double angle = p.freq_scale * theta;
        if (p.ext_factor != 0) {
          const double ramp = std::min(1.0, std::max(0.0, (i - low) / std::max(0.001, high - low)));
          const double mix = (1 - ramp) * p.ext_factor;
          angle = angle * (1 - mix) + theta * mix;
        }
        const bool neox = p.mode == MINFER_ROPE_NEOX;
        const size_t first = at + (neox ? i : 2 * i);
        const size_t second = at + (neox ? i + p.n_rot / 2 : 2 * i + 1);
        const double a = x[first], b = x[second];
        out[first] = (a * std::cos(angle) - b * std::sin(angle)) * magnitude;
        out[second] = (a * std::sin(angle) + b * std::cos(angle)) * magnitude;
      }
    }
  }
  return out;
}

minfer_rope_params params(uint32_t mode, uint32_t n_rot) {
  minfer_rope_params p{};
  p.mode = mode;
  p.n_rot = n_rot;
  p.n_ctx_orig = 4096;
  p.freq_base = 10000.0f;
  p.freq_scale = 1.0f;
  p.attn_factor = 1.0f;
  p.beta_fast = 32.0f;
  p.beta_slow = 1.0f;
  return p;
}

void check(Device& device, std::mt19937_64& rng, int64_t dim, const minfer_rope_params& p,
           bool with_factors) {
  variant(fmt::format("mode {}, {} of {}, ext_factor {}", p.mode, p.n_rot, dim, p.ext_factor), [&] {
    const int64_t heads = 3, nt = 7;
    std::vector<float> factors(p.n_rot / 2);
    for (float& f : factors) f = 1.0f + static_cast<float>(rng() % 100) / 10.0f;
    const Weight weight = f32_weight(factors, p.n_rot / 2);
    Split split(nt);
    const Dynamic tokens{2, MINFER_DYN_TOKENS};
    // Heads lie inside wider rows, as in a joint projection.
    const uint32_t owner =
        split.input(MINFER_TYPE_F32, {dim * 5, nt}, MINFER_INPUT_HIDDEN, {1, MINFER_DYN_TOKENS});
    const uint32_t x = split.view(owner, {dim, heads, nt}, {1, dim, dim * 5}, dim, tokens);
    const uint32_t pos =
        split.input(MINFER_TYPE_I32, {nt}, MINFER_INPUT_POS, {0, MINFER_DYN_TOKENS});
    const uint32_t out = split.output(MINFER_TYPE_F32, {dim, heads, nt}, tokens);
    std::vector<uint32_t> sources = {x, pos};
    if (with_factors) sources.push_back(split.weight(weight, MINFER_USE_PLAIN));
    split.node(MINFER_OP_ROPE, sources, out, p);
    Session session(device, split);
    const auto values = random_floats(rng, dim * 5 * nt);
    const std::vector<int32_t> positions = {0, 1, 17, 4095, 4096, 131072, 5};
    session.set(owner, values);
    session.set(pos, positions);
    session.run({6, 1, 1, 0});
    std::vector<float> heads_only;
    for (int64_t t = 0; t < 6; ++t) {
      const auto row = values.begin() + t * dim * 5 + dim;
      heads_only.insert(heads_only.end(), row, row + dim * heads);
    }
    auto ref = rope_reference(heads_only, dim, heads, {positions.begin(), positions.begin() + 6},
                              with_factors ? factors : std::vector<float>(), p);
    ref.resize(static_cast<size_t>(dim * heads * nt), 0.0);
    expect_below(relative_error(session.get<float>(out), ref), 1e-4);
  });
}

void both_modes_whole_and_partial(Bench& bench) {
  for (const uint32_t mode : {MINFER_ROPE_NEOX, MINFER_ROPE_INTERLEAVED}) {
    check(bench.device, bench.rng, 64, params(mode, 64), false);
    check(bench.device, bench.rng, 80, params(mode, 32), false);
    check(bench.device, bench.rng, 6, params(mode, 2), false);
    check(bench.device, bench.rng, 128, params(mode, 128), true);
    check(bench.device, bench.rng, 50, params(mode, 26), true);
  }
}

void linear_and_yarn_scaling(Bench& bench) {
  for (const uint32_t mode : {MINFER_ROPE_NEOX, MINFER_ROPE_INTERLEAVED}) {
    minfer_rope_params p = params(mode, 64);
    p.freq_scale = 0.25f;
    check(bench.device, bench.rng, 64, p, false);
    p.ext_factor = 1.0f;
    check(bench.device, bench.rng, 64, p, false);
    p.attn_factor = 0.8f;
    p.freq_base = 1e6f;
    check(bench.device, bench.rng, 64, p, true);
  }
}

// q and k turn by the same angles but are different nodes, and a third has other parameters.
void several_nodes_share_or_separate_their_angles(Bench& bench) {
  Split split(2);
  const Dynamic tokens{2, MINFER_DYN_TOKENS};
  const uint32_t x = split.input(MINFER_TYPE_F32, {64, 2, 2}, MINFER_INPUT_HIDDEN, tokens);
  const uint32_t pos = split.input(MINFER_TYPE_I32, {2}, MINFER_INPUT_POS, {0, MINFER_DYN_TOKENS});
  minfer_rope_params all[3] = {params(MINFER_ROPE_NEOX, 64), params(MINFER_ROPE_INTERLEAVED, 64),
                               params(MINFER_ROPE_NEOX, 64)};
  all[2].freq_base = 500000.0f;
  uint32_t outs[3];
  for (int i = 0; i < 3; ++i) {
    outs[i] = split.output(MINFER_TYPE_F32, {64, 2, 2}, tokens);
    split.node(MINFER_OP_ROPE, {x, pos}, outs[i], all[i]);
  }
  Session session(bench.device, split);
  const auto values = random_floats(bench.rng, 256);
  session.set(x, values);
  session.set(pos, std::vector<int32_t>{3, 900});
  session.run({2, 1, 1, 0});
  for (int i = 0; i < 3; ++i) {
    expect_below(relative_error(session.get<float>(outs[i]),
                                rope_reference(values, 64, 2, {3, 900}, {}, all[i])),
                 1e-4);
  }
}

constexpr Case kCases[] = {
    {"rope.BothModesWholeAndPartial", both_modes_whole_and_partial},
    {"rope.LinearAndYarnScaling", linear_and_yarn_scaling},
    {"rope.SeveralNodesShareOrSeparateTheirAngles", several_nodes_share_or_separate_their_angles},
};

}  // namespace

std::span<const Case> rope_cases() {
  return kCases;
}

}  // namespace conformance
