// What the files of bench_hopper share: data on the device, references in float64, timing, and the
// matrices of a model. One thread, one stream; an error of CUDA ends the program.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "../../kernels/activation.h"
#include "minfer/plugin_abi.h"

namespace minfer_cuda::hopper::bench {

#define CHECK(call)                                                                          \
  do {                                                                                       \
    const cudaError_t error_ = (call);                                                       \
    if (error_ != cudaSuccess) {                                                             \
      std::printf("%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(error_)); \
      std::exit(1);                                                                          \
    }                                                                                        \
  } while (0)

extern int g_sms;              ///< of the device
extern cudaStream_t g_stream;  ///< for all work
extern bool g_all_right;       ///< no case was wrong
extern std::string g_table;    ///< the lines of add_line()
extern uint64_t g_seed;        ///< of the next random data

/// Memory on the device, filled with `fill`: by default NaN, so that what is not written shows.
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

/// A matrix of random blocks, repacked by the plugin's kernel; `keep`: with the file's blocks.
Matrix make_matrix(uint32_t type, int id, int od, bool keep);

/// Values near a normal distribution's, always the same for a stream.
std::vector<float> random_floats(size_t n, uint64_t stream, float scale = 1.f);

/// m times x, [tokens][od] in float64; m was kept.
std::vector<double> multiply(const Matrix& m, const std::vector<double>& x, int tokens);

/// Root of the squared error over the squared values wanted; 1e9 where that is no number.
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

/// Prints a case and remembers whether it is right; `also`: what else had to hold.
void report(const std::string& name, double error, double tolerance, bool also = true);

std::string name_of(uint32_t type);
double silu(double x);

/// Median time in microseconds of a CUDA graph of `work`.
double time_graph(const std::function<void()>& work, int repeats);

/// Prints a line and keeps it for the table at the end.
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

/// The matrices of Qwen2.5-7B Q4_K_M.
struct Model {
  static constexpr int kLayers = 28, kEmbd = 3584, kKv = 512, kFf = 18944, kVocab = 152064;
  std::vector<Layer> layers;
  Matrix head;
  size_t bytes = 0;
  Model();
};

/// Every case against float64; results by report().
void run_decode_tests();
/// Of several tokens only.
void run_batch_tests();
void run_prefill_tests();
/// Times of whole chains and of single matrices.
void bench_decode(const Model& model, const std::vector<int>& counts);
void bench_prefill(const Model& model);

}  // namespace minfer_cuda::hopper::bench
