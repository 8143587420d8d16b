// Checks every table of vector operations that this build and machine have against the scalar one,
// and times the hot entries.
//
//   minfer_cpu_bench_vec [check | time]
//
// Exit status 1 when an entry is wrong.
#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "minfer/plugin_abi.h"
#include "vec_ops.h"

namespace minfer_cpu {
namespace {

using Floats = std::vector<float>;

std::mt19937 rng(11);
bool all_ok = true;

Floats random_floats(int64_t n, float deviation = 1.0f) {
  std::normal_distribution<float> normal(0.0f, deviation);
  Floats v(static_cast<size_t>(n));
  for (float& x : v) x = normal(rng);
  return v;
}

// The largest |a - b|, relative to |b| + floor; infinity where one is NaN and the other is not.
double worst(const Floats& a, const Floats& b, double floor) {
  double w = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) != std::isnan(b[i])) return INFINITY;
    if (std::isnan(a[i]) || a[i] == b[i]) continue;
    const double d = std::abs(static_cast<double>(a[i]) - b[i]) / (std::abs(b[i]) + floor);
    w = std::max(w, std::isnan(d) ? INFINITY : d);
  }
  return w;
}

void report(const VecOps& ops, const char* name, double error, double limit) {
  const bool ok = error <= limit;
  all_ok = all_ok && ok;
  std::printf("%-8s %-22s %s %.2e\n", ops.label, name, ok ? "ok  " : "FAIL", error);
}

// Runs an entry of both tables at many lengths, outputs guarded by a value past their end.
void check_rows(
    const VecOps& ops, const char* name, double limit, double floor, float deviation,
    const std::function<void(const VecOps&, const Floats&, const Floats&, int64_t, float*)>& call) {
  double error = 0;
  for (int64_t n : {0, 1, 3, 8, 15, 16, 17, 31, 33, 64, 100, 576, 1537}) {
    Floats a = random_floats(n, deviation), b = random_floats(n);
    if (n > 40) {
      a[5] = 0;
      a[20] = deviation * 30;
      a[33] = -deviation * 30;
    }
    Floats got(static_cast<size_t>(n) + 1, 77.0f), want = got;
    call(ops, a, b, n, got.data());
    call(*vec_ops_scalar(), a, b, n, want.data());
    error = std::max(error, worst(got, want, floor));
  }
  report(ops, name, error, limit);
}

void check_elementwise(const VecOps& ops) {
  using V = const VecOps&;
  using F = const Floats&;
  check_rows(ops, "add", 0, 0, 1,
             [](V v, F a, F b, int64_t n, float* o) { v.add(a.data(), b.data(), n, o); });
  check_rows(ops, "mul", 0, 0, 1,
             [](V v, F a, F b, int64_t n, float* o) { v.mul(a.data(), b.data(), n, o); });
  check_rows(ops, "scale", 2e-7, 1, 1,
             [](V v, F a, F, int64_t n, float* o) { v.scale(a.data(), n, 1.7f, -0.3f, o); });
  check_rows(ops, "axpy", 2e-7, 1, 1, [](V v, F a, F b, int64_t n, float* o) {
    std::copy(b.begin(), b.end(), o);
    v.axpy(a.data(), n, 0.7f, o);
  });
  check_rows(ops, "silu", 2e-6, 1e-30, 2,
             [](V v, F a, F, int64_t n, float* o) { v.silu(a.data(), n, o); });
  check_rows(ops, "silu_mul in place", 2e-6, 1e-30, 2, [](V v, F a, F b, int64_t n, float* o) {
    std::copy(a.begin(), a.end(), o);
    v.silu_mul(o, b.data(), n, o);
  });
  // erf's relative error grows with z^2 in the tail, where the value is below 1e-3.
  const double limits[] = {4e-6, 4e-6, 4e-6};
  const double floors[] = {1e-6, 1e-3, 1e-6};
  const char* names[] = {"gelu_mul tanh", "gelu_mul erf", "gelu_mul quick"};
  for (uint32_t kind : {MINFER_GELU_TANH, MINFER_GELU_ERF, MINFER_GELU_QUICK}) {
    check_rows(
        ops, names[kind], limits[kind], floors[kind], 2,
        [kind](V v, F a, F b, int64_t n, float* o) { v.gelu_mul(a.data(), b.data(), n, kind, o); });
  }
  check_rows(ops, "soft_cap", 1e-6, 1e-30, 10,
             [](V v, F a, F, int64_t n, float* o) { v.soft_cap(a.data(), n, 30.0f, o); });
  check_rows(ops, "exp_sum", 2e-6, 1e-35, 10, [](V v, F a, F, int64_t n, float* o) {
    const float sum = v.exp_sum(a.data(), n, 1.0f, o);
    if (n > 0) o[n] = sum;
  });
  check_rows(ops, "max and arg_max", 0, 0, 1, [](V v, F a, F, int64_t n, float* o) {
    if (n < 2) return;
    Floats x = a;
    x[static_cast<size_t>(n / 2)] = NAN;
    o[0] = v.max(x.data(), n);
    o[1] = static_cast<float>(v.arg_max(x.data(), n));
    o[n] = static_cast<float>(v.arg_max(Floats(static_cast<size_t>(n), NAN).data(), n));
  });
  check_rows(ops, "rms_norm", 1e-6, 1e-30, 1, [](V v, F a, F b, int64_t n, float* o) {
    v.rms_norm(a.data(), b.data(), n, 1e-5f, 1.0f, o);
  });
  check_rows(ops, "rms_norm plain, 1e20", 1e-6, 1e-30, 1e20f, [](V v, F a, F, int64_t n, float* o) {
    v.rms_norm(a.data(), nullptr, n, 1e-5f, 0.0f, o);
  });
  check_rows(ops, "add_rms_norm", 1e-6, 1e-30, 1, [](V v, F a, F b, int64_t n, float* o) {
    Floats sum = a;
    v.add_rms_norm(sum.data(), b.data(), b.data(), n, 1e-5f, 0.0f, sum.data(), o);
  });
  for (bool neox : {true, false}) {
    check_rows(ops, neox ? "rope_neox" : "rope_interleaved", 3e-7, 1, 1,
               [neox](V v, F a, F b, int64_t n, float* o) {
                 const float* sin = b.data() + n / 2;
                 (neox ? v.rope_neox : v.rope_interleaved)(a.data(), b.data(), sin, n / 2, o);
               });
  }
}

// Special values: what exp and its users must do at the ends.
void check_specials(const VecOps& ops) {
  const float inf = INFINITY;
  const Floats x = {-inf, -1e30f, -90, -80, 0, 80, 1e30f, NAN, -0.0f, 1e-40f};
  Floats got(x.size()), want(x.size());
  const int64_t n = static_cast<int64_t>(x.size());
  ops.exp_sum(x.data(), n - 4, 0.0f, got.data());
  vec_ops_scalar()->exp_sum(x.data(), n - 4, 0.0f, want.data());
  report(ops, "exp at the ends", worst(got, want, 1e-31), 2e-6);  // below 2.5e-38: 0
  ops.silu(x.data() + 1, n - 1, got.data());
  vec_ops_scalar()->silu(x.data() + 1, n - 1, want.data());
  report(ops, "silu at the ends", worst(got, want, 1e-32), 2e-6);
  for (uint32_t kind : {MINFER_GELU_TANH, MINFER_GELU_ERF, MINFER_GELU_QUICK}) {
    const Floats y = {-1e5f, -20, -5, 0, 5, 20, 1e5f, NAN, 1, -1};
    ops.gelu(y.data(), n, kind, got.data());
    vec_ops_scalar()->gelu(y.data(), n, kind, want.data());
    report(ops, "gelu at the ends", worst(got, want, 1e-3), 1e-5);
  }
  ops.soft_cap(x.data() + 1, n - 1, 5.0f, got.data());
  vec_ops_scalar()->soft_cap(x.data() + 1, n - 1, 5.0f, want.data());
  report(ops, "soft_cap at the ends", worst(got, want, 1e-38), 2e-6);
}

void check_kv(const VecOps& ops) {
  const char* names[] = {"kv f32", "kv f16", "kv q8_0"};
  for (uint32_t type = 0; type < kKvTypes; ++type) {
    const KvOps& kv = ops.kv[type];
    const KvOps& ref = vec_ops_scalar()->kv[type];
    double score_error = 0, value_error = 0;
    bool same = true;
    for (int64_t dim : {32, 40, 64, 96, 128, 160}) {
      if (type == kKvQ8 && dim % 32 != 0) continue;
      for (int64_t nq : {1, 2, 3, 5, 6, 7, 13}) {
        const int64_t blocks = 1 + static_cast<int64_t>(rng() % 7), tokens = blocks * kKvLanes;
        std::vector<uint8_t> k(static_cast<size_t>(blocks * ref.k_block_bytes(dim))), k2 = k;
        std::vector<uint8_t> v(static_cast<size_t>(tokens * ref.v_row_bytes(dim))), v2 = v;
        for (int64_t t = 0; t < tokens; ++t) {
          const Floats row = random_floats(dim);
          uint8_t* own = k.data() + t / kKvLanes * ref.k_block_bytes(dim);
          uint8_t* other = k2.data() + t / kKvLanes * ref.k_block_bytes(dim);
          kv.store_k(row.data(), dim, own, t % kKvLanes);
          ref.store_k(row.data(), dim, other, t % kKvLanes);
          kv.store_v(row.data(), dim, v.data() + t * ref.v_row_bytes(dim));
          ref.store_v(row.data(), dim, v2.data() + t * ref.v_row_bytes(dim));
        }
        same = same && k == k2 && v == v2;
        const Floats q = random_floats(nq * (dim + 3)), p = random_floats(nq * (tokens + 5));
        Floats s(static_cast<size_t>(nq * (tokens + 1)), 7.0f), s2 = s;
        kv.scores(q.data(), dim + 3, nq, k.data(), blocks, dim, s.data(), tokens + 1);
        ref.scores(q.data(), dim + 3, nq, k.data(), blocks, dim, s2.data(), tokens + 1);
        score_error = std::max(score_error, worst(s, s2, std::sqrt(static_cast<double>(dim))));
        Floats a = random_floats(nq * (dim + 1)), a2 = a;
        kv.values(p.data(), tokens + 5, nq, v.data(), tokens - 3, dim, a.data(), dim + 1);
        ref.values(p.data(), tokens + 5, nq, v.data(), tokens - 3, dim, a2.data(), dim + 1);
        value_error = std::max(value_error, worst(a, a2, std::sqrt(static_cast<double>(tokens))));
      }
    }
    std::printf("%-8s %-22s stored bytes %s\n", ops.label, names[type], same ? "same" : "FAIL");
    all_ok = all_ok && same;
    report(ops, "  scores", score_error, 1e-6);
    report(ops, "  values", value_error, 1e-6);
  }
}

double thread_seconds() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// Best nanoseconds of one call.
double best_ns(const std::function<void()>& call) {
  double best = 1e9;
  for (int round = 0; round < 40; ++round) {
    const double start = thread_seconds();
    for (int i = 0; i < 20; ++i) call();
    best = std::min(best, (thread_seconds() - start) / 20);
  }
  return best * 1e9;
}

void time_table(const VecOps& ops) {
  const int64_t n = 8960;
  Floats a = random_floats(n), b = random_floats(n), out(static_cast<size_t>(n));
  const double silu = best_ns([&] { ops.silu_mul(a.data(), b.data(), n, out.data()); });
  const double exps = best_ns([&] { ops.exp_sum(a.data(), 512, 3.0f, out.data()); });
  const double norm =
      best_ns([&] { ops.rms_norm(a.data(), b.data(), 1536, 1e-5f, 0, out.data()); });
  const double gelu =
      best_ns([&] { ops.gelu_mul(a.data(), b.data(), n, MINFER_GELU_TANH, out.data()); });
  std::printf(
      "%-8s ns: silu_mul(8960) %.0f  gelu_mul(8960) %.0f  exp_sum(512) %.0f  "
      "rms_norm(1536) %.0f\n",
      ops.label, silu, gelu, exps, norm);
  const int64_t dim = 128, blocks = 16, tokens = blocks * kKvLanes;
  for (uint32_t type = 0; type < kKvTypes; ++type) {
    const KvOps& kv = ops.kv[type];
    std::vector<uint8_t> k(static_cast<size_t>(blocks * kv.k_block_bytes(dim))),
        v(static_cast<size_t>(tokens * kv.v_row_bytes(dim)));
    for (int64_t t = 0; t < tokens; ++t) {
      kv.store_k(a.data(), dim, k.data() + t / kKvLanes * kv.k_block_bytes(dim), t % kKvLanes);
      kv.store_v(b.data(), dim, v.data() + t * kv.v_row_bytes(dim));
    }
    for (int64_t nq : {1, 6, 24}) {
      Floats q = random_floats(nq * dim), s(static_cast<size_t>(nq * tokens));
      const double work = 2.0 * static_cast<double>(nq * dim * tokens);
      const double t1 =
          best_ns([&] { kv.scores(q.data(), dim, nq, k.data(), blocks, dim, s.data(), tokens); });
      const double t2 =
          best_ns([&] { kv.values(s.data(), tokens, nq, v.data(), tokens, dim, q.data(), dim); });
      std::printf("%-8s kv %s, %lld queries: scores %.1f, values %.1f GFLOP/s\n", ops.label,
                  type == 0   ? "f32"
                  : type == 1 ? "f16"
                              : "q8_0",
                  static_cast<long long>(nq), work / t1, work / t2);
    }
  }
}

}  // namespace
}  // namespace minfer_cpu

int main(int argc, char** argv) {
  using namespace minfer_cpu;
  const bool timed = argc > 1 && std::string(argv[1]) == "time";
  const VecOps* previous = vec_ops_scalar();
  const Isa highest = detect_isa();
  for (Isa isa : {Isa::kAvx2, Isa::kAvx512}) {
    if (isa > highest) break;
    const VecOps* ops = vec_ops(isa);
    if (ops == previous) continue;
    previous = ops;
    if (timed) {
      time_table(*ops);
    } else {
      check_elementwise(*ops);
      check_specials(*ops);
      check_kv(*ops);
    }
  }
  return all_ok ? 0 : 1;
}
