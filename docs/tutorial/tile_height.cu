// Exercise 3: an A/B of the past, run again: how tall should a GEMM's tile be?
//
// out = X W^T in f32 with tiles of TM rows of X by 64 rows of W in shared memory. A taller tile
// reads each weight fewer times and leaves fewer blocks for the SMs. The campaign that this
// exercise comes from found 128 rows 30 % faster than 64 on its kernel and GPU. Do yours agree?
// Then ask the engine's own kernels: minfer-ab --gate MINFER_NO_FUSE_FFN=0,1 (docs/performance.md).
#include <cmath>
#include <random>

#include "tutorial.cuh"

namespace {

constexpr int kTn = 64;  // rows of W in a tile
constexpr int kTk = 16;  // of the inner dimension
constexpr int kThreads = 256;
constexpr int kPerThreadN = 4;

/// X [m, k], W [n, k], out [m, n], all row by row; m, n and k are multiples of the tile.
template <int TM>
__global__ void __launch_bounds__(kThreads)
    gemm(int n, int k, const float* x, const float* w, float* out) {
  constexpr int kPerThreadM = TM / 16;
  __shared__ float tile_x[kTk][TM + 1];
  __shared__ float tile_w[kTk][kTn + 1];
  const int row0 = blockIdx.y * TM, col0 = blockIdx.x * kTn;
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  float sum[kPerThreadM][kPerThreadN] = {};
  for (int k0 = 0; k0 < k; k0 += kTk) {
    for (int i = threadIdx.x; i < TM * kTk; i += kThreads)
      tile_x[i % kTk][i / kTk] = x[(row0 + i / kTk) * k + k0 + i % kTk];
    for (int i = threadIdx.x; i < kTn * kTk; i += kThreads)
      tile_w[i % kTk][i / kTk] = w[(col0 + i / kTk) * k + k0 + i % kTk];
    __syncthreads();
    for (int kk = 0; kk < kTk; ++kk)
      for (int i = 0; i < kPerThreadM; ++i)
        for (int j = 0; j < kPerThreadN; ++j)
          sum[i][j] += tile_x[kk][ty + 16 * i] * tile_w[kk][tx + 16 * j];
    __syncthreads();
  }
  for (int i = 0; i < kPerThreadM; ++i)
    for (int j = 0; j < kPerThreadN; ++j)
      out[(row0 + ty + 16 * i) * n + col0 + tx + 16 * j] = sum[i][j];
}

std::vector<float> random_floats(size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> values(n);
  for (float& value : values) value = uniform(random);
  return values;
}

}  // namespace

int main() {
  const int m = 1024, n = 4096, k = 1024;
  const auto x = random_floats(static_cast<size_t>(m) * k, 1);
  const auto w = random_floats(static_cast<size_t>(n) * k, 2);
  const DeviceArray<float> dx(x), dw(w);
  DeviceArray<float> out(static_cast<size_t>(m) * n);
  const auto low = [&] {
    gemm<64><<<dim3(n / kTn, m / 64), kThreads>>>(n, k, dx.get(), dw.get(), out.get());
  };
  const auto tall = [&] {
    gemm<128><<<dim3(n / kTn, m / 128), kThreads>>>(n, k, dx.get(), dw.get(), out.get());
  };

  bool right = true;
  const auto check = [&](const auto& kernel) {
    out.fill(0xff);
    kernel();
    CHECK(cudaGetLastError());
    const auto got = out.read();
    // Every 101st element against float64; NaN left over from the fill fails.
    for (size_t e = 0; e < got.size(); e += 101) {
      double want = 0;
      for (int i = 0; i < k; ++i)
        want += static_cast<double>(x[e / n * k + i]) * static_cast<double>(w[e % n * k + i]);
      right = right && std::fabs(got[e] - want) < 1e-3;
    }
  };
  check(low);
  check(tall);

  compare("64 rows", low, "128 rows", tall);
  const double flops = 2.0 * m * n * k;
  std::printf("%.1f GFLOP each\n", flops / 1e9);
  return verdict(right);
}
