// Exercise 1: when do 16-byte loads pay?
//
// y = a x + y three ways. `scalar`: a thread per float, a warp on 128 consecutive bytes. `float4`:
// a thread per four floats. Both use every byte that they move. `strided`: a thread per float too,
// but neighbours lie 32 floats apart, so that each 32-byte sector is fetched for 4 bytes of it.
#include <cmath>

#include "tutorial.cuh"

namespace {

constexpr int kThreads = 256;
constexpr int kStride = 32;

__global__ void saxpy_scalar(int n, float a, const float* x, float* y) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}

__global__ void saxpy_float4(int n4, float a, const float4* x, float4* y) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n4) return;
  const float4 u = x[i];
  float4 v = y[i];
  v.x = a * u.x + v.x;
  v.y = a * u.y + v.y;
  v.z = a * u.z + v.z;
  v.w = a * u.w + v.w;
  y[i] = v;
}

/// The same elements, a column of 32 after the other.
__global__ void saxpy_strided(int n, float a, const float* x, float* y) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const int rows = n / kStride;
  const int at = (i % rows) * kStride + i / rows;
  y[at] = a * x[at] + y[at];
}

bool equal(const std::vector<float>& got, const std::vector<float>& want) {
  for (size_t i = 0; i < got.size(); ++i)
    if (std::fabs(got[i] - want[i]) > 1e-6f * std::fabs(want[i])) return false;
  return true;
}

}  // namespace

int main() {
  const int n = 1 << 25;
  const float a = 2;
  std::vector<float> x(n), y(n), want(n);
  for (int i = 0; i < n; ++i) {
    x[i] = 1 + i % 7;
    y[i] = 1 + i % 5;
    want[i] = a * x[i] + y[i];
  }
  const DeviceArray<float> dx(x);
  const int blocks = n / kThreads;
  const auto scalar = [&](float* to) { saxpy_scalar<<<blocks, kThreads>>>(n, a, dx.get(), to); };
  const auto wide = [&](float* to) {
    saxpy_float4<<<blocks / 4, kThreads>>>(n / 4, a, reinterpret_cast<const float4*>(dx.get()),
                                           reinterpret_cast<float4*>(to));
  };
  const auto strided = [&](float* to) { saxpy_strided<<<blocks, kThreads>>>(n, a, dx.get(), to); };

  bool right = true;
  const auto check = [&](const auto& kernel) {
    const DeviceArray<float> dy(y);
    kernel(dy.get());
    CHECK(cudaGetLastError());
    right = right && equal(dy.read(), want);
  };
  check(scalar);
  check(wide);
  check(strided);

  const DeviceArray<float> dy(y);
  std::printf("3 x %zu MiB move in each\n", n * sizeof(float) >> 20);
  compare(
      "scalar", [&] { scalar(dy.get()); }, "float4", [&] { wide(dy.get()); });
  compare(
      "strided", [&] { strided(dy.get()); }, "scalar", [&] { scalar(dy.get()); });
  return verdict(right);
}
