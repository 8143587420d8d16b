// Correctness and speed of the Hopper kernels alone: bench_hopper
// [tests|batch|decode|prefill_tests|prefill|all];
// batch: tests and times of several decoded tokens only; prefill: of prefill only.
//
// First every kernel against float64 on the host, on random file blocks repacked by the plugin's
// own kernel, with poisoned outputs; then the matrices of a Qwen2.5-7B Q4_K_M in CUDA graphs.
// Prints one line per case and a table last; exits 1 when a case is wrong.
//
// nvcc -O3 -std=c++20 -gencode=arch=compute_90a,code=sm_90a -I core/include
//   plugins/cuda/hopper/*.cu plugins/cuda/hopper/*.cpp
//   plugins/cuda/kernels/{repack.cu,layout.cpp,activation.cu}
#include <cuda_fp16.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "../kernels/repack.h"
#include "decode.h"
#include "minfer/plugin_abi.h"
#include "prefill.h"

namespace {

using namespace minfer_cuda;
using namespace minfer_cuda::hopper;

#define CHECK(call)                                                                          \
  do {                                                                                       \
    const cudaError_t error_ = (call);                                                       \
    if (error_ != cudaSuccess) {                                                             \
      std::printf("%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(error_)); \
      std::exit(1);                                                                          \
    }                                                                                        \
  } while (0)

int g_sms = 0;
cudaStream_t g_stream = nullptr;
bool g_all_right = true;
std::string g_table;

// --- data

__host__ __device__ uint32_t random_bits(uint64_t stream, uint64_t i) {
  uint64_t x =
      (stream + 0x632be59bd9b4e019ull) * 0xd1342543de82ef95ull + (i + 1) * 0x9e3779b97f4a7c15ull;
  x ^= x >> 32, x *= 0xff51afd7ed558ccdull, x ^= x >> 29, x *= 0xc4ceb9fe1a85ec53ull, x ^= x >> 32;
  return static_cast<uint32_t>((x * 0xd6e8feb86659fd93ull) >> 32);
}
__host__ __device__ float random_unit(uint64_t stream, uint64_t i) {
  return static_cast<float>(random_bits(stream, i)) * (1.f / 4294967296.f);
}
float random_normal(uint64_t stream, uint64_t i) {
  float s = 0;
  for (int j = 0; j < 4; ++j) s += random_unit(stream, i * 4 + j) - 0.5f;
  return s * 1.7f;
}

/// Random file blocks with plausible scales.
__global__ void fill_blocks(uint32_t type, int block_bytes, uint8_t* out, size_t blocks,
                            uint64_t seed) {
  const size_t b = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x;
  if (b >= blocks) return;
  uint8_t* p = out + b * block_bytes;
  for (int i = 0; i < block_bytes; i += 2) {
    const uint32_t r = random_bits(seed, b * 128 + i / 2);
    p[i] = static_cast<uint8_t>(r);
    p[i + 1] = static_cast<uint8_t>(r >> 8);
  }
  const float u = 0.5f + random_unit(seed + 1, b), v = 0.8f + 0.4f * random_unit(seed + 2, b);
  const auto put = [&](int at, float f) {
    const __half h = __float2half_rn(f);
    memcpy(p + at, &h, 2);
  };
  switch (type) {
    case MINFER_TYPE_Q4_K:
      put(0, 2e-4f * u), put(2, 1.5e-3f * u * v);
      break;
    case MINFER_TYPE_Q5_K:
      put(0, 1e-4f * u), put(2, 1.5e-3f * u * v);
      break;
    case MINFER_TYPE_Q6_K:
      put(208, 2e-5f * u);
      break;
    case MINFER_TYPE_Q8_0:
      put(0, 4e-4f * u);
      break;
    default:
      put(0, 5e-3f * u);
  }
}

struct Buffer {
  char* data = nullptr;
  size_t bytes = 0;
  explicit Buffer(size_t n, int fill = 0xff) : bytes(n) {
    CHECK(cudaMalloc(&data, n));
    CHECK(cudaMemset(data, fill, n));
  }
  Buffer(const Buffer&) = delete;
  ~Buffer() { cudaFree(data); }
  template <class T>
  T* as(size_t offset = 0) const {
    return reinterpret_cast<T*>(data + offset);
  }
  template <class T>
  void put(const std::vector<T>& v) {
    CHECK(cudaMemcpy(data, v.data(), v.size() * sizeof(T), cudaMemcpyHostToDevice));
  }
  template <class T>
  std::vector<T> get(size_t n, size_t offset = 0) const {
    std::vector<T> v(n);
    CHECK(cudaMemcpy(v.data(), data + offset, n * sizeof(T), cudaMemcpyDeviceToHost));
    return v;
  }
};

struct Matrix {
  uint32_t type;
  int id, od;
  uint8_t* tiles = nullptr;
  size_t bytes = 0;           ///< of the file
  std::vector<uint8_t> file;  ///< kept for references where asked
};

uint64_t g_seed = 1;

Matrix make_matrix(uint32_t type, int id, int od, bool keep) {
  const TypeLayout& layout = *find_layout(type);
  Matrix m{type, id, od};
  const size_t blocks = static_cast<size_t>(id / layout.block_k) * od;
  m.bytes = blocks * layout.block_bytes;
  Buffer raw(m.bytes);
  CHECK(cudaMalloc(&m.tiles, tiled_bytes(layout, id, od)));
  fill_blocks<<<static_cast<unsigned>((blocks + 255) / 256), 256, 0, g_stream>>>(
      type, layout.block_bytes, raw.as<uint8_t>(), blocks, g_seed += 10);
  CHECK(cudaGetLastError());
  CHECK(launch_repack(layout, raw.as<uint8_t>(), id, od, m.tiles, g_stream));
  CHECK(cudaStreamSynchronize(g_stream));
  if (keep) m.file = raw.get<uint8_t>(m.bytes);
  return m;
}

float half_of(const uint8_t* p) {
  __half h;
  std::memcpy(&h, p, 2);
  return __half2float(h);
}

/// A block of the file in float64.
void dequantise(uint32_t type, const uint8_t* p, double* y) {
  if (type == MINFER_TYPE_Q4_K || type == MINFER_TYPE_Q5_K) {
    const double d = half_of(p), dmin = half_of(p + 2);
    const uint8_t* s = p + 4;
    const uint8_t* q = p + (type == MINFER_TYPE_Q4_K ? 16 : 48);
    for (int j = 0; j < 8; ++j) {
      const int sc = j < 4 ? s[j] & 63 : (s[j + 4] & 15) | (s[j - 4] >> 6) << 4;
      const int mn = j < 4 ? s[j + 4] & 63 : (s[j + 4] >> 4) | (s[j] >> 6) << 4;
      for (int i = 0; i < 32; ++i) {
        int v = q[j / 2 * 32 + i];
        v = j & 1 ? v >> 4 : v & 15;
        if (type == MINFER_TYPE_Q5_K) v |= ((p[16 + i] >> j) & 1) << 4;
        y[j * 32 + i] = d * sc * v - dmin * mn;
      }
    }
  } else if (type == MINFER_TYPE_Q6_K) {
    for (int e = 0; e < 256; ++e) {
      const int h = e / 128, r = e % 128, quarter = r / 32, l = r % 32;
      int lo = p[h * 64 + (quarter & 1) * 32 + l];
      lo = quarter >= 2 ? lo >> 4 : lo & 15;
      const int hi = (p[128 + h * 32 + l] >> (2 * quarter)) & 3;
      y[e] =
          double{half_of(p + 208)} * static_cast<int8_t>(p[192 + e / 16]) * ((lo | hi << 4) - 32);
    }
  } else {
    for (int i = 0; i < 32; ++i) {
      int v = 0;
      if (type == MINFER_TYPE_Q8_0) v = static_cast<int8_t>(p[2 + i]);
      if (type == MINFER_TYPE_Q4_0) v = (i < 16 ? p[2 + i] & 15 : p[2 + i - 16] >> 4) - 8;
      if (type == MINFER_TYPE_Q5_0) {
        v = i < 16 ? p[6 + i] & 15 : p[6 + i - 16] >> 4;
        v = (v | ((p[2 + i / 8] >> (i % 8)) & 1) << 4) - 16;
      }
      y[i] = double{half_of(p)} * v;
    }
  }
}

std::vector<double> row_of(const Matrix& m, int row) {
  const TypeLayout& layout = *find_layout(m.type);
  std::vector<double> w(m.id);
  const int blocks = m.id / layout.block_k;
  for (int b = 0; b < blocks; ++b) {
    dequantise(m.type, &m.file[(static_cast<size_t>(row) * blocks + b) * layout.block_bytes],
               &w[static_cast<size_t>(b) * layout.block_k]);
  }
  return w;
}

/// [tokens][od] in float64.
std::vector<double> multiply(const Matrix& m, const std::vector<double>& x, int tokens) {
  std::vector<double> y(static_cast<size_t>(tokens) * m.od);
  const int n = std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::thread> threads;
  for (int i = 0; i < n; ++i) {
    threads.emplace_back([&, i] {
      for (int r = i; r < m.od; r += n) {
        const std::vector<double> w = row_of(m, r);
        for (int t = 0; t < tokens; ++t) {
          double s = 0;
          for (int k = 0; k < m.id; ++k) s += w[k] * x[static_cast<size_t>(t) * m.id + k];
          y[static_cast<size_t>(t) * m.od + r] = s;
        }
      }
    });
  }
  for (auto& t : threads) t.join();
  return y;
}

template <class T>
double relative_error(const std::vector<T>& got, const std::vector<double>& want) {
  double e = 0, n = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const double d = static_cast<double>(got[i]) - want[i];
    e += d * d, n += want[i] * want[i];
  }
  const double r = std::sqrt(e / std::max(n, 1e-30));
  return std::isfinite(r) ? r : 1e9;
}

void report(const std::string& name, double error, double tolerance, bool also = true) {
  const bool right = error <= tolerance && also;
  g_all_right &= right;
  std::printf("%-58s error %.2e (%.0e) %s%s\n", name.c_str(), error, tolerance,
              right ? "ok" : "WRONG", also ? "" : " (bits moved, flags or padding)");
}

std::string name_of(uint32_t type) {
  return find_layout(type)->name;
}

std::vector<float> random_floats(size_t n, uint64_t stream, float scale = 1.f) {
  std::vector<float> v(n);
  for (size_t i = 0; i < n; ++i) v[i] = random_normal(stream, i) * scale;
  return v;
}

double silu(double x) {
  return x / (1 + std::exp(-x));
}

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

// --- tests

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

void run_tests() {
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

// --- timing

double time_graph(const std::function<void()>& work, int repeats) {
  work();
  CHECK(cudaStreamSynchronize(g_stream));
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  CHECK(cudaStreamBeginCapture(g_stream, cudaStreamCaptureModeThreadLocal));
  work();
  CHECK(cudaStreamEndCapture(g_stream, &graph));
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  for (int i = 0; i < 3; ++i) CHECK(cudaGraphLaunch(exec, g_stream));
  cudaEvent_t a, b;
  CHECK(cudaEventCreate(&a));
  CHECK(cudaEventCreate(&b));
  std::vector<float> times;
  for (int i = 0; i < repeats; ++i) {
    CHECK(cudaEventRecord(a, g_stream));
    CHECK(cudaGraphLaunch(exec, g_stream));
    CHECK(cudaEventRecord(b, g_stream));
    CHECK(cudaEventSynchronize(b));
    float ms;
    CHECK(cudaEventElapsedTime(&ms, a, b));
    times.push_back(ms * 1e3f);
  }
  std::sort(times.begin(), times.end());
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphDestroy(graph));
  return times[times.size() / 2];
}

void add_line(const char* format, auto... values) {
  char line[256];
  std::snprintf(line, sizeof line, format, values...);
  std::printf("%s\n", line);
  std::fflush(stdout);
  g_table += std::string(line) + "\n";
}

struct Layer {
  Matrix q, k, v, o, gate, up, down;
};

struct Model {
  static constexpr int kLayers = 28, kEmbd = 3584, kKv = 512, kFf = 18944, kVocab = 152064;
  std::vector<Layer> layers;
  Matrix head;
  size_t bytes = 0;
  Model() {
    for (int l = 0; l < kLayers; ++l) {
      const uint32_t big = l & 1 ? MINFER_TYPE_Q6_K : MINFER_TYPE_Q4_K, q4 = MINFER_TYPE_Q4_K;
      layers.push_back({make_matrix(q4, kEmbd, kEmbd, false), make_matrix(q4, kEmbd, kKv, false),
                        make_matrix(big, kEmbd, kKv, false), make_matrix(q4, kEmbd, kEmbd, false),
                        make_matrix(q4, kEmbd, kFf, false), make_matrix(q4, kEmbd, kFf, false),
                        make_matrix(big, kFf, kEmbd, false)});
      const Layer& y = layers.back();
      for (const Matrix* m : {&y.q, &y.k, &y.v, &y.o, &y.gate, &y.up, &y.down}) bytes += m->bytes;
    }
    head = make_matrix(MINFER_TYPE_Q6_K, kEmbd, kVocab, false);
    bytes += head.bytes;
  }
};

DecodeSegment decode_segment(const Matrix& m, float* out, const float* residual = nullptr) {
  return {m.tiles, m.type, m.od, nullptr, residual, out, m.od, m.od};
}

/// The decode chain of the model; attention is left out, the query stands for its result.
struct DecodeChain {
  const Model& model;
  int n;               ///< tokens
  int most_warps = 0;  ///< of DecodeCall
  Buffer x{size_t{4} * n * Model::kEmbd, 0}, qkv{size_t{4} * n * 4608};
  Buffer logits{size_t{4} * n * Model::kVocab};
  Buffer normed{int8_rows_bytes(Model::kEmbd, n), 0}, attn{int8_rows_bytes(Model::kEmbd, n), 0};
  Buffer normed2{int8_rows_bytes(Model::kEmbd, n), 0}, gated{int8_rows_bytes(Model::kFf, n), 0};
  Buffer squares{size_t{448} * n, 0}, squares2{size_t{448} * n, 0}, norm{Model::kEmbd * 4, 0};

  void run(bool overlap) {
    const auto rows = [this](Buffer& b, int id) { return int8_rows_at(b.data, id, n); };
    CHECK(launch_quantize(x.as<float>(), Model::kEmbd, Model::kEmbd, n, nullptr,
                          rows(normed, Model::kEmbd), false, g_stream));
    for (const Layer& l : model.layers) {
      DecodeCall c;
      c.overlap = overlap;
      c.tokens = n;
      c.most_warps = most_warps;
      c.id = Model::kEmbd;
      c.eps = 1e-6f;
      c.x = rows(normed, Model::kEmbd);
      c.squares = squares.as<float>();
      c.n_segments = 3;
      c.segments[0] = decode_segment(l.q, nullptr);
      c.segments[1] = decode_segment(l.k, qkv.as<float>());
      c.segments[2] = decode_segment(l.v, qkv.as<float>() + 512);
      c.out_int8 = rows(attn, Model::kEmbd);
      CHECK(launch_decode(c, g_sms, g_stream));

      DecodeCall o;
      o.overlap = overlap;
      o.tokens = n;
      o.most_warps = most_warps;
      o.id = Model::kEmbd;
      o.x = rows(attn, Model::kEmbd);
      o.n_segments = 1;
      o.segments[0] = decode_segment(l.o, x.as<float>(), x.as<float>());
      o.out_int8 = rows(normed2, Model::kEmbd);
      o.out_scale = norm.as<float>();
      o.out_scale_offset = 1.f;
      o.out_squares = squares2.as<float>();
      CHECK(launch_decode(o, g_sms, g_stream));

      DecodeCall g;
      g.overlap = overlap;
      g.tokens = n;
      g.most_warps = most_warps;
      g.id = Model::kEmbd;
      g.eps = 1e-6f;
      g.x = rows(normed2, Model::kEmbd);
      g.squares = squares2.as<float>();
      g.n_segments = 2;
      g.gated = true;
      g.segments[0] = decode_segment(l.gate, nullptr);
      g.segments[1] = decode_segment(l.up, nullptr);
      g.out_int8 = rows(gated, Model::kFf);
      CHECK(launch_decode(g, g_sms, g_stream));

      DecodeCall d = o;
      d.id = Model::kFf;
      d.x = rows(gated, Model::kFf);
      d.segments[0] = decode_segment(l.down, x.as<float>(), x.as<float>());
      d.out_int8 = rows(normed, Model::kEmbd);
      d.out_squares = squares.as<float>();
      CHECK(launch_decode(d, g_sms, g_stream));
    }
    DecodeCall h;
    h.overlap = overlap;
    h.tokens = n;
    h.most_warps = most_warps;
    h.id = Model::kEmbd;
    h.eps = 1e-6f;
    h.x = rows(normed, Model::kEmbd);
    h.squares = squares.as<float>();
    h.n_segments = 1;
    h.segments[0] = decode_segment(model.head, logits.as<float>());
    CHECK(launch_decode(h, g_sms, g_stream));
  }
};

void bench_chain(const Model& model, int tokens, int most_warps, bool overlap) {
  DecodeChain chain{model, tokens, most_warps};
  chain.x.put(random_floats(size_t{1} * tokens * Model::kEmbd, 77));
  const double us = time_graph([&] { chain.run(overlap); }, 30);
  add_line("decode chain, %2d tokens, warps <= %2d, %-11s %8.1f us  %.3f TB/s  %7.0f tok/s", tokens,
           most_warps, overlap ? "overlapped" : "plain graph", us, model.bytes / us * 1e-6,
           tokens / us * 1e6);
}

/// One matrix after another of each kind, without the rest.
void bench_matrices(const Model& model, int tokens) {
  const auto one = [&](const char* name, auto pick, int id, bool gated) {
    size_t bytes = 0;
    Buffer rows(int8_rows_bytes(id, tokens), 1), out(size_t{4} * tokens * Model::kFf);
    const double us = time_graph(
        [&] {
          bytes = 0;
          for (const Layer& l : model.layers) {
            DecodeCall c;
            c.id = id;
            c.overlap = true;
            c.tokens = tokens;
            c.x = int8_rows_at(rows.data, id, tokens);
            c.gated = gated;
            for (const Matrix* m : pick(l)) {
              c.segments[c.n_segments++] = decode_segment(*m, out.as<float>());
              bytes += m->bytes;
            }
            CHECK(launch_decode(c, g_sms, g_stream));
          }
        },
        20);
    add_line("decode of %2d %-23s %7.2f us each     %.3f TB/s", tokens, name, us / Model::kLayers,
             bytes / us * 1e-6);
  };
  using List = std::vector<const Matrix*>;
  one(
      "qkv 3584x4608",
      [](const Layer& l) {
        return List{&l.q, &l.k, &l.v};
      },
      Model::kEmbd, false);
  one(
      "o 3584x3584", [](const Layer& l) { return List{&l.o}; }, Model::kEmbd, false);
  one(
      "gate, up 3584x37888",
      [](const Layer& l) {
        return List{&l.gate, &l.up};
      },
      Model::kEmbd, true);
  one(
      "down 18944x3584", [](const Layer& l) { return List{&l.down}; }, Model::kFf, false);
}

void bench_decode(const Model& model, const std::vector<int>& counts) {
  for (int tokens : counts) {
    bench_chain(model, tokens, 0, true);
    if (tokens == 1) continue;
    for (int warps : {7, 10, 14}) bench_chain(model, tokens, warps, true);
  }
  bench_chain(model, 1, 0, false);
  for (int tokens : {1, 8, 16}) bench_matrices(model, tokens);
}

struct PrefillChain {
  const Model& model;
  int tokens;
  Buffer x, q, kv, half, gated, scale, workspace, flags, count, squares;
  PrefillTile tile = {};
  bool folds = false;
  PrefillChain(const Model& m, int n, int in_use)
      : model(m),
        tokens(n),
        x(size_t{4} * n * Model::kEmbd, 0),
        q(size_t{4} * n * Model::kEmbd),
        kv(size_t{4} * n * 1024),
        half(size_t{2} * n * Model::kEmbd),
        gated(size_t{2} * n * Model::kFf),
        scale(n * 4),
        workspace(160 << 20),
        flags(kPrefillFlagBytes, 0),
        count(4),
        squares(size_t{4} * n * Model::kEmbd / 64, 0) {
    count.put(std::vector<int32_t>{in_use});
    x.put(random_floats(size_t{1} * n * Model::kEmbd, 99));
  }
  PrefillCall call(const uint16_t* in, const float* s, float factor) const {
    PrefillCall c;
    c.x = in;
    c.x_scale = s;
    c.x_factor = factor;
    c.workspace = workspace.as<float>();
    c.flags = flags.as<uint32_t>();
    c.valid = count.as<int32_t>();
    c.overlap = true;
    return c;
  }
  void launch(const PrefillCall& c, uint32_t type, int id, const std::vector<int32_t>& od,
              bool gate = false) const {
    CHECK(launch_prefill(c, plan_prefill({type, id, tokens, od, gate, tile}, g_sms), g_sms,
                         g_stream));
  }
  void qkv(const Layer& l) const {
    PrefillCall c = call(half.as<uint16_t>(), scale.as<float>(), 1.f);
    read_published(c);
    const PrefillSegment v{l.v.tiles, nullptr, nullptr, 0, kv.as<float>() + 512, 1024};
    c.segments[0] = {l.q.tiles, nullptr, nullptr, 0, q.as<float>(), Model::kEmbd};
    c.segments[1] = {l.k.tiles, nullptr, nullptr, 0, kv.as<float>(), 1024};
    c.segments[2] = v;
    if (l.v.type == l.q.type) return launch(c, l.q.type, Model::kEmbd, {Model::kEmbd, 512, 512});
    launch(c, l.q.type, Model::kEmbd, {Model::kEmbd, 512});
    c.segments[0] = v;
    launch(c, l.v.type, Model::kEmbd, {512});
  }
  void out(const Layer& l) const {
    PrefillCall c = call(half.as<uint16_t>(), scale.as<float>(), 1.f);
    c.segments[0] = {l.o.tiles, nullptr, x.as<float>(), Model::kEmbd, x.as<float>(), Model::kEmbd};
    publish(c);
    launch(c, l.o.type, Model::kEmbd, {Model::kEmbd});
  }
  void gate_up(const Layer& l) const {
    PrefillCall c = call(half.as<uint16_t>(), scale.as<float>(), 1.f);
    read_published(c);
    c.segments[0].weight = l.gate.tiles;
    c.segments[1].weight = l.up.tiles;
    c.half_out = gated.as<uint16_t>();
    launch(c, l.gate.type, Model::kEmbd, {Model::kFf, Model::kFf}, true);
  }
  void down(const Layer& l) const {
    PrefillCall c = call(gated.as<uint16_t>(), nullptr, kGatedScale);
    c.segments[0] = {l.down.tiles, nullptr,       x.as<float>(),
                     Model::kEmbd, x.as<float>(), Model::kEmbd};
    publish(c);
    launch(c, l.down.type, Model::kFf, {Model::kEmbd});
  }
  /// Makes a launch publish for the norm after it, or read what the one before published.
  void publish(PrefillCall& c) const {
    if (!folds) return;
    c.half_out = half.as<uint16_t>();
    c.out_squares = squares.as<float>();
  }
  void read_published(PrefillCall& c) const {
    if (!folds) return;
    c.x_scale = nullptr;
    c.x_factor = kPublishedScale;
    c.x_squares = squares.as<float>();
    c.eps = 1e-6f;
  }
  void norm() const {
    if (folds) return;
    launch_norm();
  }
  void launch_norm() const {
    CHECK(launch_norm_to_fragments(x.as<float>(), Model::kEmbd, nullptr, 0.f, 1e-6f, Model::kEmbd,
                                   tokens, count.as<int32_t>(), half.as<uint16_t>(),
                                   scale.as<float>(), true, g_stream));
  }
  void run() const {
    if (folds) launch_norm();
    for (const Layer& l : model.layers) {
      norm();
      qkv(l);
      CHECK(launch_to_fragments(q.as<float>(), Model::kEmbd, Model::kEmbd, tokens,
                                count.as<int32_t>(), half.as<uint16_t>(), scale.as<float>(), true,
                                g_stream));
      out(l);
      norm();
      gate_up(l);
      down(l);
    }
  }
};

struct PrefillBench {
  int capacity, valid;
  PrefillTile tile = {};
  bool folds = false;  ///< norms into the matmuls
};

void bench_prefill(const Model& model, const std::vector<PrefillBench>& benches) {
  constexpr double kWeights =
      28.0 * (3584.0 * 4608 + 3584.0 * 3584 + 3584.0 * 37888 + 18944.0 * 3584);
  for (const PrefillBench& b : benches) {
    PrefillChain chain(model, b.capacity, b.valid);
    chain.tile = b.tile;
    chain.folds = b.folds;
    const int n = b.valid, repeats = n > 1000 ? 5 : 9;
    const double us = time_graph([&] { chain.run(); }, repeats);
    const auto one = [&](auto step) {
      return time_graph(
                 [&] {
                   for (const Layer& l : model.layers) step(l);
                 },
                 repeats) /
             28;
    };
    const double qkv = one([&](const Layer& l) { chain.qkv(l); });
    const double o = one([&](const Layer& l) { chain.out(l); });
    const double gate_up = one([&](const Layer& l) { chain.gate_up(l); });
    const double down = one([&](const Layer& l) { chain.down(l); });
    const double norm = one([&](const Layer&) { chain.launch_norm(); });
    add_line(
        "prefill chain %5d/%5d tokens, tile %3dx%3d%s %10.1f us %7.0f tok/s %6.1f TFLOP/s; each: "
        "qkv "
        "%.1f o %.1f gate_up %.1f down %.1f norm %.1f us",
        n, b.capacity, b.tile.tokens, b.tile.rows, b.folds ? ", norms folded" : "", us,
        n / us * 1e6, 2 * kWeights * n / us * 1e-6, qkv, o, gate_up, down, norm);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "all";
  cudaDeviceProp device;
  CHECK(cudaGetDeviceProperties(&device, 0));
  g_sms = device.multiProcessorCount;
  std::printf("%s, %d SMs\n", device.name, g_sms);
  CHECK(cudaStreamCreate(&g_stream));
  if (what == "tests" || what == "all") {
    run_tests();
    run_prefill_tests();
    std::printf(g_all_right ? "all right\n" : "SOMETHING IS WRONG\n");
  }
  if (what == "batch") run_batch_tests();
  if (what == "prefill_tests") run_prefill_tests();
  if (what != "tests" && what != "prefill_tests") {
    const Model model;
    std::printf("weights %.4f GB\n", model.bytes * 1e-9);
    if (what != "prefill") bench_decode(model, {1, 2, 4, 8, 16});
    if (what == "prefill" || what == "all")
      bench_prefill(model, {{16, 16, {0, 128}},
                            {16, 16, {0, 256}},
                            {16, 16, {0, 128}, true},
                            {16, 16, {0, 256}, true},
                            {16, 16, {}, true},
                            {32, 32, {0, 128}},
                            {32, 32, {0, 256}},
                            {32, 32, {0, 128}, true},
                            {32, 32, {0, 256}, true},
                            {32, 32, {}, true},
                            {64, 64, {0, 128}},
                            {64, 64, {0, 256}},
                            {64, 64},
                            {64, 64, {128, 0}},
                            {128, 128},
                            {128, 128, {256, 0}},
                            {512, 300, {128, 0}},
                            {512, 300, {256, 0}},
                            {512, 512, {128, 0}},
                            {512, 512, {256, 0}},
                            {512, 512},
                            {2048, 1111, {128, 0}},
                            {2048, 1111, {256, 0}},
                            {2048, 1111},
                            {2048, 2048}});
  }
  std::printf("\n%s", g_table.c_str());
  return g_all_right ? 0 : 1;
}
