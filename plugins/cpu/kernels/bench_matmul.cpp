// Checks and times every matmul kernel of the build on this machine.
//
//   minfer_cpu_bench_matmul check [LABEL]          every kernel whose label contains LABEL, over
//   odd shapes,
//                                           against float64 arithmetic on the dequantised weights
//   minfer_cpu_bench_matmul time [LABEL] [THREADS] GB/s of file bytes at 1 to 8 tokens and GFLOP/s
//   at 8 to
//                                           256, as the median (and best) of several runs
// Exit status 1 when a kernel is wrong.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <sys/mman.h>
#include <time.h>

#include "kernels/panel.h"
#include "matmul_list.h"
#include "minfer/quant_blocks.h"

namespace minfer_cpu {
namespace {

std::mt19937 rng(7);

// Memory as an engine would hold weights: 64-byte aligned, huge pages where the system gives them.
class Buffer {
 public:
  explicit Buffer(uint64_t bytes) : bytes_(std::max<uint64_t>(bytes, 4096)) {
    data_ = static_cast<uint8_t*>(
        mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (data_ == MAP_FAILED) std::abort();
    madvise(data_, bytes_, MADV_HUGEPAGE);
  }
  ~Buffer() { munmap(data_, bytes_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  uint8_t* data() { return data_; }
  float* floats() { return reinterpret_cast<float*>(data_); }

 private:
  uint64_t bytes_;
  uint8_t* data_;
};

// Where f16 scales lie in a block of a type; -1: none.
struct ScalePlaces {
  int d, m;
};
ScalePlaces scale_places(uint32_t type) {
  switch (type) {
    case MINFER_TYPE_Q4_1:
    case MINFER_TYPE_Q5_1:
    case MINFER_TYPE_Q4_K:
    case MINFER_TYPE_Q5_K:
      return {0, 2};
    case MINFER_TYPE_Q2_K:
      return {80, 82};
    case MINFER_TYPE_Q3_K:
      return {108, -1};
    case MINFER_TYPE_Q6_K:
      return {208, -1};
    case MINFER_TYPE_MXFP4:
      return {-1, -1};
    default:
      return {0, -1};
  }
}

// Random rows in the file's format: random bits, and scales that are finite and partly zero.
void fill_rows(uint32_t type, int64_t values, int codes, uint8_t* out) {
  std::uniform_real_distribution<float> uniform(0.002f, 0.02f);
  std::normal_distribution<float> normal;
  if (type == MINFER_TYPE_F32 || type == MINFER_TYPE_F16 || type == MINFER_TYPE_BF16) {
    for (int64_t i = 0; i < values; ++i) {
      const float v = normal(rng);
      const uint16_t h = type == MINFER_TYPE_F16
                             ? minfer_f32_to_f16(v)
                             : static_cast<uint16_t>(minfer_f32_to_bits(v) >> 16);
      if (type == MINFER_TYPE_F32) {
        std::memcpy(out + 4 * i, &v, 4);
      } else {
        std::memcpy(out + 2 * i, &h, 2);
      }
    }
    return;
  }
  const int64_t size = minfer_type_bytes(type);
  const int64_t blocks = values / minfer_type_values(type);
  const ScalePlaces places = scale_places(type);
  for (int64_t i = 0; i + 4 <= blocks * size; i += 4) {
    const uint32_t bits = codes < 0 ? static_cast<uint32_t>(rng()) : 0x01010101u * codes;
    std::memcpy(out + i, &bits, 4);
  }
  for (int64_t b = 0; b < blocks; ++b) {
    uint8_t* p = out + b * size;
    const float d = b % 17 == 3 ? 0.0f : uniform(rng);
    const uint16_t hd = minfer_f32_to_f16(d), hm = minfer_f32_to_f16(d * (normal(rng) - 4));
    if (places.d >= 0) std::memcpy(p + places.d, &hd, 2);
    if (places.m >= 0) std::memcpy(p + places.m, &hm, 2);
    if (type == MINFER_TYPE_MXFP4) *p = static_cast<uint8_t>(118 + rng() % 6);
  }
}

struct Case {
  int64_t id, od, nt;
  bool bias;
  int codes = -1;  // every byte of codes, or -1: random; activations are then all equal
};

// The activations as the kernel sees them: what it was given, or what its int8 values stand for, so
// that the check is as sharp as f32 sums allow. Those must be within half a step of the input.
std::vector<float> activations_seen(const MatmulKernel& k, const std::vector<float>& x,
                                    const uint8_t* converted, const Case& c) {
  if (k.activation == ActFormat::kF32) return x;
  std::vector<float> seen(x.size());
  const ActBlock* blocks = reinterpret_cast<const ActBlock*>(converted);
  for (size_t i = 0; i < x.size(); ++i) {
    const ActBlock& b = blocks[i / kBlock];
    seen[i] = b.scale * static_cast<float>(b.q[i % kBlock]);
    if (!(std::abs(seen[i] - x[i]) <= 0.5001f * b.scale)) {
      std::printf("%s: column %zu of %lld: activation %g became %g\n", k.label, i,
                  static_cast<long long>(c.id), x[i], seen[i]);
    }
  }
  return seen;
}

// The worst |out - reference| of one shape, relative to the root of the sum of its squared terms;
// negative when something else is broken (printed).
double check_case(const MatmulKernel& k, const Case& c) {
  const int64_t row_bytes = c.id / minfer_type_values(k.type) * minfer_type_bytes(k.type);
  std::vector<uint8_t> file(static_cast<size_t>(row_bytes * c.od));
  fill_rows(k.type, c.id * c.od, c.codes, file.data());
  std::vector<float> w(static_cast<size_t>(c.id * c.od)), x(static_cast<size_t>(c.id * c.nt)),
      bias(static_cast<size_t>(c.od)), row(static_cast<size_t>(c.id));
  minfer_dequantize_row(k.type, file.data(), c.id * c.od, w.data());
  std::normal_distribution<float> normal;
  for (float& v : x) v = c.codes < 0 ? normal(rng) : 1.0f;
  for (float& v : bias) v = normal(rng);
  for (int64_t i = 0; i < 32; ++i) x[static_cast<size_t>(i)] = 0;  // a block of zeros

  Buffer packed(k.packed_bytes(c.id, c.od));
  const uint8_t* weights = file.data();
  if (k.pack != nullptr) {
    const int64_t middle = c.od / 2 / k.row_group * k.row_group;
    k.pack(file.data(), c.id, c.od, 0, middle, packed.data());
    k.pack(file.data(), c.id, c.od, middle, c.od, packed.data());
    weights = packed.data();
  }
  for (int64_t o = 0; o < c.od; ++o) {
    k.unpack_row(weights, c.id, c.od, o, row.data());
    if (std::memcmp(row.data(), w.data() + o * c.id, static_cast<size_t>(c.id) * 4) != 0) {
      std::printf("%s: unpack_row differs in row %lld of %lldx%lld\n", k.label,
                  static_cast<long long>(o), static_cast<long long>(c.id),
                  static_cast<long long>(c.od));
      return -1;
    }
  }
  Buffer act(k.activation_bytes(c.id, c.nt)), scratch(k.scratch_bytes(c.id, c.nt));
  k.convert(x.data(), c.id, c.id, c.nt, 0, c.nt, act.data());
  const int64_t stride = c.od + 3;
  const float poison = 12345.0f;
  std::vector<float> out(static_cast<size_t>(stride * c.nt), poison);
  const int64_t split = c.od / 3 / k.row_group * k.row_group;
  for (int part = 0; part < 2; ++part) {
    k.run(weights, c.id, c.od, act.data(), c.nt, part == 0 ? 0 : split, part == 0 ? split : c.od,
          c.bias ? bias.data() : nullptr, out.data(), stride, scratch.data());
  }
  const std::vector<float> seen = activations_seen(k, x, act.data(), c);
  double worst = 0;
  for (int64_t t = 0; t < c.nt; ++t) {
    for (int64_t o = 0; o < c.od; ++o) {
      double sum = c.bias ? bias[static_cast<size_t>(o)] : 0, squares = sum * sum;
      for (int64_t i = 0; i < c.id; ++i) {
        const double term = static_cast<double>(w[static_cast<size_t>(o * c.id + i)]) *
                            seen[static_cast<size_t>(t * c.id + i)];
        sum += term;
        squares += term * term;
      }
      const double diff = std::abs(out[static_cast<size_t>(t * stride + o)] - sum);
      worst = std::max(worst, squares == 0 ? diff : diff / std::sqrt(squares));
    }
    for (int64_t o = c.od; o < stride; ++o) {
      if (out[static_cast<size_t>(t * stride + o)] != poison) {
        std::printf("%s: wrote past the last row\n", k.label);
        return -1;
      }
    }
  }
  return worst;
}

bool check(const MatmulKernel& k) {
  const double limit = 4e-6;
  double worst = 0;
  bool ok = true;
  for (int64_t id : {32, 96, 256, 576, 768, 1536}) {
    if (!k.fits(id, 1)) continue;
    for (int64_t od : {1, 16, 37, 80}) {
      for (int64_t nt : {1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 16, 17, 21, 40}) {
        const double e = check_case(k, {id, od, nt, nt % 2 == 1});
        if (!(e >= 0 && e <= limit)) {
          std::printf("FAIL %s id %lld od %lld nt %lld: error %.3g\n", k.label,
                      static_cast<long long>(id), static_cast<long long>(od),
                      static_cast<long long>(nt), e);
          ok = false;
        }
        worst = std::max(worst, e);
      }
    }
  }
  for (int codes : {0x00, 0x7f, 0x80, 0xff}) {  // sums at the ends of their range
    for (int64_t nt : {1, 4, 20}) {
      const double e = check_case(k, {512, 16, nt, false, codes});
      if (!(e >= 0 && e <= 8 * limit)) {
        std::printf("FAIL %s codes %02x nt %lld: error %.3g\n", k.label, codes,
                    static_cast<long long>(nt), e);
        ok = false;
      }
    }
  }
  std::printf("%-24s %s worst error %.2e\n", k.label, ok ? "ok  " : "FAIL", worst);
  return ok;
}

// Processor time of this thread: other processes on the machine do not count, only their effect on
// caches and clocks.
double thread_seconds() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

double best(std::vector<double> v) {
  return *std::min_element(v.begin(), v.end());
}
double median(std::vector<double> v) {
  std::nth_element(v.begin(), v.begin() + static_cast<long>(v.size() / 2), v.end());
  return v[v.size() / 2];
}

struct Timing {
  double median, best;
};

// Seconds that one thread's share of a matrix takes while all threads work, with `copies` matrices
// in turn so that none is found in a cache that a whole model would not fit.
Timing time_run(const MatmulKernel& k, int threads, const Case& c, const uint8_t* packed,
                uint64_t step, int copies, int rounds) {
  Buffer x(static_cast<uint64_t>(c.id * c.nt) * 4), act(k.activation_bytes(c.id, c.nt)),
      out(static_cast<uint64_t>(c.od * c.nt) * 4);
  std::normal_distribution<float> normal;
  for (int64_t i = 0; i < c.id * c.nt; ++i) x.floats()[i] = normal(rng);
  k.convert(x.floats(), c.id, c.id, c.nt, 0, c.nt, act.data());
  std::vector<std::vector<double>> samples(static_cast<size_t>(threads));
  std::vector<std::thread> pool;
  for (int i = 0; i < threads; ++i) {
    pool.emplace_back([&, i] {
      Buffer scratch(k.scratch_bytes(c.id, c.nt));
      const int64_t r0 = c.od * i / threads / 32 * 32;
      const int64_t r1 = i + 1 == threads ? c.od : c.od * (i + 1) / threads / 32 * 32;
      for (int r = 0; r < rounds; ++r) {
        const double start = thread_seconds();
        k.run(packed + static_cast<uint64_t>(r % copies) * step, c.id, c.od, act.data(), c.nt, r0,
              r1, nullptr, out.floats(), c.od, scratch.data());
        samples[static_cast<size_t>(i)].push_back(thread_seconds() - start);
      }
    });
  }
  for (std::thread& t : pool) t.join();
  Timing sum{0, 0};
  for (const std::vector<double>& s : samples) {
    sum.median += median(s) / threads;
    sum.best += best(s) / threads;
  }
  return sum;
}

// The up-projection of a 1.5B model.
void time_kernel(const MatmulKernel& k, int threads) {
  const int64_t id = 1536, od = 8960;
  const int64_t file_bytes = id * od / minfer_type_values(k.type) * minfer_type_bytes(k.type);
  const int copies = 12;
  std::vector<uint8_t> file(static_cast<size_t>(file_bytes));
  fill_rows(k.type, id * od, -1, file.data());
  const uint64_t packed_bytes = k.packed_bytes(id, od);
  const uint64_t step = (packed_bytes + 4095) / 4096 * 4096;
  Buffer packed(step * copies);
  std::vector<double> pack_times;
  for (int c = 0; c < copies; ++c) {
    const double start = thread_seconds();
    if (k.pack != nullptr) {
      k.pack(file.data(), id, od, 0, od, packed.data() + c * step);
    } else {
      std::memcpy(packed.data() + c * step, file.data(), packed_bytes);
    }
    pack_times.push_back(thread_seconds() - start);
  }
  const double bytes = static_cast<double>(file_bytes);
  std::printf("%-22s %d thr size %.3f pack %.1f GB/s, median (best) GB/s", k.label, threads,
              static_cast<double>(packed_bytes) / bytes, bytes / best(pack_times) / 1e9);
  for (int64_t nt : {1, 2, 4, 8}) {
    const Timing t = time_run(k, threads, {id, od, nt, false}, packed.data(), step, copies, 60);
    std::printf(" %lld: %.1f (%.1f)", static_cast<long long>(nt), bytes / t.median / 1e9,
                bytes / t.best / 1e9);
  }
  std::printf(" GFLOP/s");
  for (int64_t nt : {8, 16, 32, 256}) {
    const Timing t =
        time_run(k, threads, {id, od, nt, false}, packed.data(), step, copies, nt > 32 ? 6 : 12);
    const double work = 2e-9 * static_cast<double>(id * od * nt);
    std::printf(" %lld: %.0f (%.0f)", static_cast<long long>(nt), work / t.median, work / t.best);
  }
  std::printf("\n");
}

int bench(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "check";
  const std::string label = argc > 2 ? argv[2] : "";
  const int threads = argc > 3 ? std::max(1, std::atoi(argv[3])) : 1;
  KernelList lists[] = {
#ifdef MINFER_CPU_HAVE_AVX512VNNI
      matmul_kernels_avx512vnni(),
#endif
#ifdef MINFER_CPU_HAVE_AVX512
      matmul_kernels_avx512(),
#endif
#ifdef MINFER_CPU_HAVE_AVX2
      matmul_kernels_avx2(),
#endif
      matmul_kernels_scalar(),
  };
  bool ok = true;
  for (const KernelList& list : lists) {
    for (uint32_t i = 0; i < list.count; ++i) {
      const MatmulKernel& k = list.kernels[i];
      if (std::string(k.label).find(label) == std::string::npos) continue;
      if (mode == "time") {
        time_kernel(k, threads);
      } else {
        ok = check(k) && ok;
      }
    }
  }
  return ok ? 0 : 1;
}

}  // namespace
}  // namespace minfer_cpu

int main(int argc, char** argv) {
  return minfer_cpu::bench(argc, argv);
}
