// The wgmma matmul against float64.
#include <cuda_fp16.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "../prefill.h"
#include "bench.h"

namespace minfer_cuda::hopper::bench {

namespace {

/// f16 rows in fragment order to plain values.
std::vector<double> read_fragments(const Buffer& b, int n, int tokens) {
  const auto h = b.get<__half>(static_cast<size_t>(n) * tokens);
  std::vector<double> v(h.size());
  for (int t = 0; t < tokens; ++t) {
    for (int k = 0; k < n; ++k) {
      v[static_cast<size_t>(t) * n + k] =
          __half2float(h[static_cast<size_t>(t) * n + fragment_position(k)]);
    }
  }
  return v;
}

struct PrefillCase {
  uint32_t type;
  int id, od, tokens;
  bool gated;
  int valid = -1;  ///< all but two
  PrefillTile tile = {};
};

void test_prefill(const PrefillCase& c) {
  Matrix a = make_matrix(c.type, c.id, c.od, true), b = make_matrix(c.type, c.id, c.od, true);
  const size_t nx = static_cast<size_t>(c.id) * c.tokens, ny = static_cast<size_t>(c.od) * c.tokens;
  const int valid = c.valid >= 0 ? c.valid : c.tokens > 2 ? c.tokens - 2 : c.tokens;
  Buffer x(nx * 4), half(nx * 2), scale(c.tokens * 4), out(2 * ny * 4), bias(2 * c.od * 4),
      count(4), residual(ny * 4);
  x.put(random_floats(nx, g_seed += 10));
  const auto bias_values = random_floats(2 * c.od, g_seed += 10);
  const auto residual_values = random_floats(ny, g_seed += 10);
  bias.put(bias_values), residual.put(residual_values), count.put(std::vector<int32_t>{valid});
  CHECK(launch_to_fragments(x.as<float>(), c.id, c.id, c.tokens, count.as<int32_t>(),
                            half.as<uint16_t>(), scale.as<float>(), false, g_stream));
  const PrefillPlan plan =
      plan_prefill({c.type, c.id, c.tokens, {c.od, c.od}, c.gated, c.tile}, g_sms);
  PrefillCall call;
  call.x = half.as<uint16_t>();
  call.x_scale = scale.as<float>();
  call.segments[0] = {a.tiles, bias.as<float>(), c.gated ? nullptr : residual.as<float>(),
                      c.od,    out.as<float>(),  c.od};
  call.segments[1] = {b.tiles, bias.as<float>() + c.od, nullptr, 0, out.as<float>() + ny, c.od};
  call.half_out = out.as<uint16_t>();
  call.valid = count.as<int32_t>();
  Buffer workspace(plan.workspace_bytes + 16);
  Buffer flags(kPrefillFlagBytes, 0);
  call.workspace = workspace.as<float>();
  call.flags = flags.as<uint32_t>();
  CHECK(launch_prefill(call, plan, g_sms, g_stream));
  CHECK(cudaStreamSynchronize(g_stream));
  const auto first = out.get<uint8_t>(c.gated ? ny * 2 : 2 * ny * 4);

  const auto xs = read_fragments(half, c.id, c.tokens);
  const auto ya = multiply(a, xs, c.tokens), yb = multiply(b, xs, c.tokens);
  std::vector<double> got, want;
  if (c.gated) {
    got = read_fragments(out, c.od, c.tokens);
    for (size_t i = 0; i < got.size(); ++i) {
      got[i] = i < static_cast<size_t>(valid) * c.od ? got[i] * kGatedScale : 0;
    }
  } else {
    const auto o = out.get<float>(2 * ny);
    got.assign(o.begin(), o.end());
  }

  bool padding = true;
  for (int s = 0; s < (c.gated ? 1 : 2); ++s) {
    for (int t = 0; t < c.tokens; ++t) {
      for (int r = 0; r < c.od; ++r) {
        const size_t i = static_cast<size_t>(t) * c.od + r;
        double v = (s ? yb[i] : ya[i]) + bias_values[s * c.od + r];
        if (c.gated) v = silu(v) * (yb[i] + bias_values[c.od + r]);
        if (!c.gated && s == 0) v += residual_values[i];
        if (t >= valid) v = 0, padding &= got[want.size()] == 0;
        want.push_back(v);
      }
    }
  }
  bool same = true;
  for (int i = 0; i < 3; ++i) {
    CHECK(launch_prefill(call, plan, g_sms, g_stream));
    CHECK(cudaStreamSynchronize(g_stream));
    same &= out.get<uint8_t>(first.size()) == first;
  }
  for (uint32_t f : flags.get<uint32_t>(kPrefillFlagBytes / 4)) same &= f == 0;
  const std::string name =
      "prefill " + name_of(c.type) + " " + std::to_string(c.id) + "x2x" + std::to_string(c.od) +
      " " + std::to_string(valid) + "/" + std::to_string(c.tokens) + " tokens, tile " +
      std::to_string(c.tile.tokens) + "x" + std::to_string(c.tile.rows) + (c.gated ? " gated" : "");
  report(name, relative_error(got, want), 2e-3, same && padding);
  cudaFree(a.tiles), cudaFree(b.tiles);
}

/// A matmul that publishes for a norm, and one that reads what it published.
void test_published(uint32_t type, int id, int od, int tokens, PrefillTile tile) {
  Matrix a = make_matrix(type, id, od, true), b = make_matrix(type, od, 192, true);
  const size_t nx = size_t{1} * id * tokens, ny = size_t{1} * od * tokens;
  const int valid = tokens > 2 ? tokens - 1 : tokens;
  Buffer x(nx * 4), half(nx * 2), scale(tokens * 4), mid(ny * 4), published(ny * 2);
  Buffer squares(size_t{4} * od / 64 * tokens), weight(od * 4), count(4),
      flags(kPrefillFlagBytes, 0);
  Buffer out(size_t{192} * tokens * 4), workspace(64 << 20);
  const auto w = random_floats(od, g_seed += 10);
  x.put(random_floats(nx, g_seed += 10)), weight.put(w), count.put(std::vector<int32_t>{valid});
  CHECK(launch_to_fragments(x.as<float>(), id, id, tokens, count.as<int32_t>(), half.as<uint16_t>(),
                            scale.as<float>(), false, g_stream));
  const PrefillPlan plan = plan_prefill({type, id, tokens, {od}, false, tile}, g_sms);
  const PrefillPlan next_plan = plan_prefill({type, od, tokens, {192}, false, tile}, g_sms);
  PrefillCall call;
  call.x = half.as<uint16_t>();
  call.x_scale = scale.as<float>();
  call.segments[0] = {a.tiles, nullptr, nullptr, 0, mid.as<float>(), od};
  call.half_out = published.as<uint16_t>();
  call.out_squares = squares.as<float>();
  call.out_weight = weight.as<float>();
  call.out_weight_offset = 1.f;
  call.valid = count.as<int32_t>();
  call.workspace = workspace.as<float>();
  call.flags = flags.as<uint32_t>();
  CHECK(launch_prefill(call, plan, g_sms, g_stream));
  PrefillCall next = call;
  next.x = published.as<uint16_t>();
  next.x_scale = nullptr;
  next.x_factor = kPublishedScale;
  next.x_squares = squares.as<float>();
  next.eps = 1e-6f;
  next.out_squares = nullptr;
  next.segments[0] = {b.tiles, nullptr, nullptr, 0, out.as<float>(), 192};
  CHECK(launch_prefill(next, next_plan, g_sms, g_stream));
  CHECK(cudaStreamSynchronize(g_stream));
  auto y = multiply(a, read_fragments(half, id, tokens), tokens);
  for (int t = 0; t < tokens; ++t) {
    double sum = 0;
    for (int o = 0; o < od; ++o) sum += y[size_t{1} * t * od + o] * y[size_t{1} * t * od + o];
    const double factor = 1 / std::sqrt(sum / od + 1e-6);
    for (int o = 0; o < od; ++o) {
      double& v = y[size_t{1} * t * od + o];
      v = t < valid ? v * factor * (w[o] + 1.0) : 0;
    }
  }
  const auto want = multiply(b, y, tokens);
  report("prefill published " + name_of(type) + " " + std::to_string(id) + "x" +
             std::to_string(od) + " " + std::to_string(tokens) + " tokens, tile rows " +
             std::to_string(tile.rows),
         relative_error(out.get<float>(want.size()), want), 2e-3);
  cudaFree(a.tiles), cudaFree(b.tiles);
}

}  // namespace

void run_prefill_tests() {
  for (int tokens : {1, 9, 16, 20, 32}) {
    for (int rows : {128, 256}) {
      test_published(MINFER_TYPE_Q4_K, 1024, 3584, tokens, {0, rows});
      test_published(MINFER_TYPE_Q8_0, 512, 768, tokens, {0, rows});
    }
  }
  for (uint32_t type : {MINFER_TYPE_Q4_K, MINFER_TYPE_Q5_K, MINFER_TYPE_Q6_K, MINFER_TYPE_Q8_0,
                        MINFER_TYPE_Q4_0, MINFER_TYPE_Q5_0}) {
    for (bool gated : {false, true}) {
      for (int rows : {128, 256}) {
        for (int tokens : {1, 16, 31, 50}) {
          test_prefill({type, 768, 640, tokens, gated, -1, {0, rows}});
        }
        test_prefill({type, 3584, 544, 32, gated, -1, {0, rows}});
      }
      for (int tile : {128, 256}) {
        for (int valid : {0, 5, 70, 150, 256, 300}) {
          test_prefill({type, 768, 320, 300, gated, valid, {tile, 0}});
        }
      }
      test_prefill({type, 768, 640, 100, gated});
    }
    test_prefill({type, 3584, 544, 300, false, 259});
    test_prefill({type, 512, 9600, 130, true});
    test_prefill({type, 512, 9600, 260, false});
    test_prefill({type, 512, 200, 700, false, 650, {128, 0}});
  }
}

}  // namespace minfer_cuda::hopper::bench
