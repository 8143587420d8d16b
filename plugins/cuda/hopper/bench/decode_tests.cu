// Decode kernels against float64, given the int8 activations.
#include <algorithm>
#include <cmath>

#include "../decode.h"
#include "bench.h"

namespace minfer_cuda::hopper::bench {

namespace {

/// The int8 form of a row on the device, and the values it stands for.
struct QuantRow {
  Buffer data;
  Int8Rows rows;
  std::vector<double> values;
  explicit QuantRow(const std::vector<float>& x) : data(int8_rows_bytes(x.size(), 1)) {
    const int n = static_cast<int>(x.size());
    rows = int8_rows_at(data.data, n, 1);
    Buffer f(x.size() * 4);
    f.put(x);
    CHECK(launch_quantize(f.as<float>(), n, n, 1, nullptr, rows, false, g_stream));
    CHECK(cudaStreamSynchronize(g_stream));
    values = read(data, n);
  }
  static std::vector<double> read(const Buffer& b, int n) {
    const auto q = b.get<int8_t>(n);
    const auto m = b.get<ActMeta>(n / 32, n);
    std::vector<double> v(n);
    for (int i = 0; i < n; ++i) v[i] = static_cast<double>(q[i]) * m[i / 32].d;
    return v;
  }
};

void test_decode_plain(const std::vector<uint32_t>& types, int id, const std::vector<int>& ods,
                       bool overlap) {
  std::vector<Matrix> m;
  for (size_t i = 0; i < types.size(); ++i) m.push_back(make_matrix(types[i], id, ods[i], true));
  const std::vector<float> x = random_floats(id, g_seed += 10);
  const QuantRow q(x);
  double squares = 0;
  std::vector<float> parts(id / 32, 0.f);
  for (int i = 0; i < id; ++i) squares += double{x[i]} * x[i], parts[i / 32] += x[i] * x[i];
  const double factor = 1 / std::sqrt(squares / id + 1e-6);
  Buffer part_buffer(parts.size() * 4);
  part_buffer.put(parts);
  int total = 0;
  for (int od : ods) total += od;
  Buffer out(total * 4), bias(total * 4), residual(total * 4), out_int8(int8_rows_bytes(ods[0], 1));
  Buffer scale(ods[0] * 4), out_squares(ods[0] / 32 * 4 + 4);
  const auto b = random_floats(total, g_seed += 10), r = random_floats(total, g_seed += 10);
  const auto sc = random_floats(ods[0], g_seed += 10);
  bias.put(b), residual.put(r), scale.put(sc);
  const bool publishes = ods[0] % 32 == 0;
  DecodeCall call;
  call.id = id;
  call.x = q.rows;
  call.squares = part_buffer.as<float>();
  call.eps = 1e-6f;
  call.overlap = overlap;
  int at = 0;
  for (const Matrix& mat : m) {
    DecodeSegment& s = call.segments[call.n_segments++];
    s = {mat.tiles,           mat.type, mat.od, bias.as<float>() + at, residual.as<float>() + at,
         out.as<float>() + at};
    at += mat.od;
  }
  if (publishes) {
    call.out_int8 = int8_rows_at(out_int8.data, ods[0], 1);
    call.out_scale = scale.as<float>();
    call.out_scale_offset = 1.f;
    call.out_squares = out_squares.as<float>();
  }
  CHECK(launch_decode(call, g_sms, g_stream));
  CHECK(cudaStreamSynchronize(g_stream));
  const auto got = out.get<float>(total);
  std::vector<double> want;
  for (const Matrix& mat : m) {
    for (double v : multiply(mat, q.values, 1))
      want.push_back(v * factor + b[want.size()] + r[want.size()]);
  }
  std::string name = "decode";
  for (size_t i = 0; i < types.size(); ++i)
    name += " " + name_of(types[i]) + " " + std::to_string(id) + "x" + std::to_string(ods[i]);
  report(name, relative_error(got, want), 1e-4);
  if (publishes) {
    const auto values = QuantRow::read(out_int8, ods[0]);
    std::vector<double> wanted(ods[0]);
    double sum = 0, got_sum = 0;
    for (int i = 0; i < ods[0]; ++i) wanted[i] = want[i] * (sc[i] + 1.0), sum += want[i] * want[i];
    for (float f : out_squares.get<float>(ods[0] / 32)) got_sum += f;
    const auto meta = out_int8.get<ActMeta>(ods[0] / 32, ods[0]);
    const auto quants = out_int8.get<int8_t>(ods[0]);
    bool sums = std::fabs(got_sum / sum - 1) < 1e-4;
    for (int i = 0; i < ods[0] / 32; ++i) {
      int lo = 0, hi = 0;
      for (int j = 0; j < 16; ++j) lo += quants[i * 32 + j], hi += quants[i * 32 + 16 + j];
      sums &= lo == meta[i].lo && hi == meta[i].hi;
    }
    report("  published int8, sums and squares", relative_error(values, wanted), 1.2e-2, sums);
  }
  // A padding row: zeros.
  Buffer none(4, 0);
  call.valid = none.as<int32_t>();
  CHECK(launch_decode(call, g_sms, g_stream));
  CHECK(cudaStreamSynchronize(g_stream));
  double most = 0;
  for (float f : out.get<float>(total)) most = std::max(most, std::fabs(double{f}));
  report("  padding row", most, 0);
  for (Matrix& mat : m) cudaFree(mat.tiles);
}

void test_decode_gated(uint32_t type, int id, int od) {
  Matrix g = make_matrix(type, id, od, true), u = make_matrix(type, id, od, true);
  const QuantRow q(random_floats(id, g_seed += 10));
  Buffer out(od * 4), out_int8(int8_rows_bytes(od, 1));
  DecodeCall call;
  call.id = id;
  call.x = q.rows;
  call.gated = true;
  call.n_segments = 2;
  call.segments[0] = {g.tiles, type, od, nullptr, nullptr, out.as<float>()};
  call.segments[1] = {u.tiles, type, od, nullptr, nullptr, nullptr};
  call.out_int8 = int8_rows_at(out_int8.data, od, 1);
  CHECK(launch_decode(call, g_sms, g_stream));
  CHECK(cudaStreamSynchronize(g_stream));
  auto want = multiply(g, q.values, 1);
  const auto up = multiply(u, q.values, 1);
  for (int i = 0; i < od; ++i) want[i] = silu(want[i]) * up[i];
  const std::string name =
      "decode gated " + name_of(type) + " " + std::to_string(id) + "x" + std::to_string(od);
  report(name, relative_error(out.get<float>(od), want), 1e-4);
  report("  published int8", relative_error(QuantRow::read(out_int8, od), want), 1.2e-2);
  cudaFree(g.tiles), cudaFree(u.tiles);
}

/// Several tokens: against the dequantised weights and the int8 rows, plain or gated.
void test_decode_batch(const std::vector<uint32_t>& types, int id, int od, int tokens, bool gated) {
  std::vector<Matrix> m;
  for (uint32_t type : types) m.push_back(make_matrix(type, id, od, true));
  const size_t n = m.size();
  Buffer x(size_t{4} * id * tokens), rows(int8_rows_bytes(id, tokens)), out(n * tokens * od * 4);
  Buffer residual(size_t{4} * od * tokens), squares(size_t{4} * id / 32 * tokens), count(4);
  Buffer published(int8_rows_bytes(od, tokens)), out_squares(size_t{4} * od / 32 * tokens + 4);
  const auto res = random_floats(size_t{1} * od * tokens, g_seed += 10);
  x.put(random_floats(size_t{1} * id * tokens, g_seed += 10));
  residual.put(res);
  squares.put(std::vector<float>(static_cast<size_t>(id) / 32 * tokens, 8.f));
  const double factor = 1 / std::sqrt(8.0 / 32 + 1e-6);
  const int valid = tokens > 2 ? tokens - 1 : tokens;
  count.put(std::vector<int32_t>{valid});
  DecodeCall call;
  call.id = id;
  call.tokens = tokens;
  call.x = int8_rows_at(rows.data, id, tokens);
  call.squares = squares.as<float>();
  call.eps = 1e-6f;
  call.gated = gated;
  call.valid = count.as<int32_t>();
  CHECK(launch_quantize(x.as<float>(), id, id, tokens, nullptr, call.x, false, g_stream));
  CHECK(cudaStreamSynchronize(g_stream));
  for (size_t i = 0; i < n; ++i) {
    DecodeSegment& s = call.segments[call.n_segments++];
    s = {m[i].tiles,
         m[i].type,
         od,
         nullptr,
         gated ? nullptr : residual.as<float>(),
         out.as<float>() + i * tokens * od};
    s.residual_stride = s.out_stride = od;
  }
  if (od % 32 == 0) {
    call.out_int8 = int8_rows_at(published.data, od, tokens);
    call.out_squares = out_squares.as<float>();
  }
  CHECK(launch_decode(call, g_sms, g_stream));
  CHECK(cudaStreamSynchronize(g_stream));
  std::vector<double> values(size_t{1} * id * tokens), want;
  const auto q = rows.get<int8_t>(values.size());
  const auto meta = rows.get<ActMeta>(values.size() / 32, values.size());
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(q[i]) * meta[i / 32].d;
  const auto first = multiply(m[0], values, tokens);
  for (size_t s = 0; s < (gated ? 1 : n); ++s) {
    const auto y = s || gated ? multiply(m[gated ? 1 : s], values, tokens) : first;
    for (int t = 0; t < tokens; ++t) {
      for (int o = 0; o < od; ++o) {
        const size_t i = static_cast<size_t>(t) * od + o;
        double v = gated ? silu(first[i] * factor) * y[i] * factor : y[i] * factor + res[i];
        want.push_back(t < valid ? v : 0);
      }
    }
  }
  std::string name = "decode of " + std::to_string(tokens) + (gated ? " gated" : "");
  for (uint32_t type : types) name += " " + name_of(type);
  report(name + " " + std::to_string(id) + "x" + std::to_string(od),
         relative_error(out.get<float>(want.size()), want), 1e-4);
  if (od % 32 == 0) {
    const size_t k = size_t{1} * od * tokens;
    const auto pq = published.get<int8_t>(k);
    const auto pm = published.get<ActMeta>(k / 32, k);
    std::vector<double> got(k);
    for (size_t i = 0; i < k; ++i) got[i] = static_cast<double>(pq[i]) * pm[i / 32].d;
    want.resize(k);
    report("  published int8", relative_error(got, want), 1.2e-2);
  }
  for (Matrix& mat : m) cudaFree(mat.tiles);
}

}  // namespace

void run_batch_tests() {
  using V = std::vector<uint32_t>;
  for (int tokens : {2, 5, 8, 9, 16}) {
    for (uint32_t type : {MINFER_TYPE_Q4_K, MINFER_TYPE_Q6_K, MINFER_TYPE_Q8_0}) {
      test_decode_batch(V{type}, 1024, 3584, tokens, false);
      test_decode_batch(V{type}, 512, 40, tokens, false);
      test_decode_batch(V{type, type}, 1024, 4864, tokens, true);
    }
    test_decode_batch(V{MINFER_TYPE_Q4_K, MINFER_TYPE_Q6_K}, 3584, 2080, tokens, false);
    test_decode_batch(V{MINFER_TYPE_Q6_K}, 18944, 512, tokens, false);
  }
}

void run_decode_tests() {
  run_batch_tests();
  using V = std::vector<uint32_t>;
  for (uint32_t type : {MINFER_TYPE_Q4_K, MINFER_TYPE_Q5_K, MINFER_TYPE_Q6_K, MINFER_TYPE_Q8_0,
                        MINFER_TYPE_Q4_0, MINFER_TYPE_Q5_0}) {
    test_decode_plain(V{type}, 3584, {3584}, false);
    test_decode_plain(V{type}, 512, {40}, false);
    test_decode_gated(type, 1024, 4864);
  }
  test_decode_plain(V{MINFER_TYPE_Q4_K, MINFER_TYPE_Q4_K, MINFER_TYPE_Q6_K}, 3584, {3584, 512, 512},
                    true);
  test_decode_plain(V{MINFER_TYPE_Q6_K, MINFER_TYPE_Q4_K, MINFER_TYPE_Q6_K}, 3584, {3584, 512, 520},
                    true);
  test_decode_plain(V{MINFER_TYPE_Q6_K}, 18944, {3584}, true);
  test_decode_plain(V{MINFER_TYPE_Q4_K}, 18944, {3584}, false);
  test_decode_plain(V{MINFER_TYPE_Q8_0, MINFER_TYPE_Q5_0}, 896, {896, 128}, false);
  test_decode_plain(V{MINFER_TYPE_Q6_K}, 3584, {40000}, true);
  test_decode_gated(MINFER_TYPE_Q4_K, 3584, 18944);
}

}  // namespace minfer_cuda::hopper::bench
