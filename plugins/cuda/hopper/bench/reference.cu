// References in float64 from the file's blocks.
#include <cuda_fp16.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "../../kernels/layout.h"
#include "bench.h"

namespace minfer_cuda::hopper::bench {

namespace {

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

}  // namespace

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

void report(const std::string& name, double error, double tolerance, bool also) {
  const bool right = error <= tolerance && also;
  g_all_right &= right;
  std::printf("%-58s error %.2e (%.0e) %s%s\n", name.c_str(), error, tolerance,
              right ? "ok" : "WRONG", also ? "" : " (bits moved, flags or padding)");
}

std::string name_of(uint32_t type) {
  return find_layout(type)->name;
}

double silu(double x) {
  return x / (1 + std::exp(-x));
}

}  // namespace minfer_cuda::hopper::bench
