// What the exercises share: checked CUDA calls, device timestamps, and the interleaved comparison.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CHECK(call)                                                             \
  do {                                                                          \
    const cudaError_t check_error = (call);                                     \
    if (check_error != cudaSuccess) {                                           \
      std::fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(check_error)); \
      std::exit(1);                                                             \
    }                                                                           \
  } while (false)

/// Device memory that frees itself.
template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(size_t n) : n_(n) { CHECK(cudaMalloc(&data_, n * sizeof(T))); }
  explicit DeviceArray(const std::vector<T>& from) : DeviceArray(from.size()) {
    CHECK(cudaMemcpy(data_, from.data(), n_ * sizeof(T), cudaMemcpyHostToDevice));
  }
  ~DeviceArray() { cudaFree(data_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  T* get() const { return data_; }
  void fill(int byte) { CHECK(cudaMemset(data_, byte, n_ * sizeof(T))); }
  std::vector<T> read() const {
    std::vector<T> out(n_);
    CHECK(cudaMemcpy(out.data(), data_, n_ * sizeof(T), cudaMemcpyDeviceToHost));
    return out;
  }

 private:
  T* data_ = nullptr;
  size_t n_;
};

/// Milliseconds between two device timestamps around `work`.
template <class Work>
float time_ms(Work&& work) {
  cudaEvent_t begin, end;
  CHECK(cudaEventCreate(&begin));
  CHECK(cudaEventCreate(&end));
  CHECK(cudaEventRecord(begin));
  work();
  CHECK(cudaGetLastError());
  CHECK(cudaEventRecord(end));
  CHECK(cudaEventSynchronize(end));
  float ms = 0;
  CHECK(cudaEventElapsedTime(&ms, begin, end));
  CHECK(cudaEventDestroy(begin));
  CHECK(cudaEventDestroy(end));
  return ms;
}

inline float median(std::vector<float> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

/// Times two kernels in pairs that take turns at going first, so that drift of the clocks hits both
/// alike. Prints medians, and whether the slowest of one is faster than the fastest of the other:
/// without that a difference of medians means nothing.
template <class A, class B>
void compare(const char* name_a, A&& a, const char* name_b, B&& b, int pairs = 9) {
  std::vector<float> ms_a, ms_b;
  a();
  b();
  CHECK(cudaDeviceSynchronize());
  for (int i = 0; i < pairs; ++i) {
    if (i % 2 == 0) ms_a.push_back(time_ms(a));
    ms_b.push_back(time_ms(b));
    if (i % 2 != 0) ms_a.push_back(time_ms(a));
  }
  const auto [low_a, high_a] = std::minmax_element(ms_a.begin(), ms_a.end());
  const auto [low_b, high_b] = std::minmax_element(ms_b.begin(), ms_b.end());
  const bool separated = *high_a < *low_b || *high_b < *low_a;
  std::printf("%-22s %8.4f ms (%.4f to %.4f)\n", name_a, median(ms_a), *low_a, *high_a);
  std::printf("%-22s %8.4f ms (%.4f to %.4f), %+.1f %% speed, %s\n", name_b, median(ms_b), *low_b,
              *high_b, 100 * (median(ms_a) / median(ms_b) - 1),
              separated ? "separated" : "NOT separated: no verdict");
}

/// The end of each program: a wrong kernel has no speed.
inline int verdict(bool right) {
  std::printf("%s\n",
              right ? "results equal the CPU's" : "WRONG RESULTS: the times above mean nothing");
  return right ? 0 : 1;
}
