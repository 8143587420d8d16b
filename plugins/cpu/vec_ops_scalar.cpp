// The reference vector operations: plain loops, the meaning of every entry of VecOps. Pure
// functions, thread-safe on disjoint outputs.
#include <cmath>
#include <cstring>
#include <limits>

#include "minfer/quant_blocks.h"
#include "vec_ops.h"

namespace minfer_cpu {
namespace {

void add(const float* a, const float* b, int64_t n, float* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = a[i] + b[i];
}

void mul(const float* a, const float* b, int64_t n, float* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = a[i] * b[i];
}

void scale(const float* x, int64_t n, float factor, float offset, float* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = x[i] * factor + offset;
}

void axpy(const float* x, int64_t n, float factor, float* acc) {
  for (int64_t i = 0; i < n; ++i) acc[i] += x[i] * factor;
}

float silu_of(float x) {
  return x / (1.0f + std::exp(-x));
}

void silu(const float* x, int64_t n, float* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = silu_of(x[i]);
}

void silu_mul(const float* gate, const float* up, int64_t n, float* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = silu_of(gate[i]) * up[i];
}

float gelu_of(float x, uint32_t kind) {
  constexpr float kRootTwoOverPi = 0.7978845608028654f;
  constexpr float kRootHalf = 0.7071067811865476f;
  switch (kind) {
    case MINFER_GELU_ERF:
      return 0.5f * x * std::erfc(-x * kRootHalf);
    case MINFER_GELU_QUICK:
      return x / (1.0f + std::exp(-1.702f * x));
    default: {
      // 1 + tanh(u) = 2 / (1 + exp(-2u)), which keeps its relative precision for large negative u.
      const float u = kRootTwoOverPi * (x + 0.044715f * x * x * x);
      return x / (1.0f + std::exp(-2.0f * u));
    }
  }
}

void gelu(const float* x, int64_t n, uint32_t kind, float* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = gelu_of(x[i], kind);
}

void gelu_mul(const float* gate, const float* up, int64_t n, uint32_t kind, float* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = gelu_of(gate[i], kind) * up[i];
}

void soft_cap(const float* x, int64_t n, float cap, float* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = cap * std::tanh(x[i] / cap);
}

float max(const float* x, int64_t n) {
  float best = -std::numeric_limits<float>::infinity();
  for (int64_t i = 0; i < n; ++i) best = x[i] > best ? x[i] : best;
  return best;
}

int64_t arg_max(const float* x, int64_t n) {
  int64_t best = -1;
  for (int64_t i = 0; i < n; ++i) {
    if (!std::isnan(x[i]) && (best < 0 || x[i] > x[best])) best = i;
  }
  return best < 0 ? 0 : best;
}

float exp_sum(const float* x, int64_t n, float bias, float* out) {
  float sum = 0.0f;
  for (int64_t i = 0; i < n; ++i) {
    out[i] = std::exp(x[i] - bias);
    sum += out[i];
  }
  return sum;
}

void rms_norm(const float* x, const float* weight, int64_t n, float eps, float weight_offset,
              float* out) {
  double squares = 0.0;
  for (int64_t i = 0; i < n; ++i) squares += static_cast<double>(x[i]) * x[i];
  const float factor = static_cast<float>(1.0 / std::sqrt(squares / static_cast<double>(n) + eps));
  for (int64_t i = 0; i < n; ++i) {
    out[i] = x[i] * factor * (weight != nullptr ? weight[i] + weight_offset : 1.0f);
  }
}

void add_rms_norm(const float* a, const float* b, const float* weight, int64_t n, float eps,
                  float weight_offset, float* sum, float* out) {
  add(a, b, n, sum);
  rms_norm(sum, weight, n, eps, weight_offset, out);
}

void rope_neox(const float* x, const float* cos, const float* sin, int64_t half, float* out) {
  for (int64_t i = 0; i < half; ++i) {
    const float a = x[i], b = x[i + half];
    out[i] = a * cos[i] - b * sin[i];
    out[i + half] = a * sin[i] + b * cos[i];
  }
}

void rope_interleaved(const float* x, const float* cos, const float* sin, int64_t half,
                      float* out) {
  for (int64_t i = 0; i < half; ++i) {
    const float a = x[2 * i], b = x[2 * i + 1];
    out[2 * i] = a * cos[i] - b * sin[i];
    out[2 * i + 1] = a * sin[i] + b * cos[i];
  }
}

// ---- KV cache: how one element of f32 and f16 is held

struct F32 {
  using Stored = float;
  static float encode(float x) { return x; }
  static float decode(float x) { return x; }
};

struct F16 {
  using Stored = minfer_f16;
  static minfer_f16 encode(float x) { return minfer_f32_to_f16(x); }
  static float decode(minfer_f16 x) { return minfer_f16_to_f32(x); }
};

template <class T>
struct PlainKv {
  using Stored = typename T::Stored;
  static int64_t k_block_bytes(int64_t dim) {
    return dim * kKvLanes * static_cast<int64_t>(sizeof(Stored));
  }
  static int64_t v_row_bytes(int64_t dim) { return dim * static_cast<int64_t>(sizeof(Stored)); }
  static void store_k(const float* k, int64_t dim, uint8_t* block, int64_t lane) {
    Stored* to = reinterpret_cast<Stored*>(block) + lane;
    for (int64_t d = 0; d < dim; ++d) to[d * kKvLanes] = T::encode(k[d]);
  }
  static void store_v(const float* v, int64_t dim, uint8_t* row) {
    Stored* to = reinterpret_cast<Stored*>(row);
    for (int64_t d = 0; d < dim; ++d) to[d] = T::encode(v[d]);
  }
  static void load_k(const uint8_t* block, int64_t lane, int64_t dim, float* k) {
    const Stored* from = reinterpret_cast<const Stored*>(block) + lane;
    for (int64_t d = 0; d < dim; ++d) k[d] = T::decode(from[d * kKvLanes]);
  }
  static void load_v(const uint8_t* row, int64_t dim, float* v) {
    const Stored* from = reinterpret_cast<const Stored*>(row);
    for (int64_t d = 0; d < dim; ++d) v[d] = T::decode(from[d]);
  }
};

// ---- q8_0

constexpr int64_t kQ8Values = 32;
// 32 dimensions of 16 tokens: 16 scales, then the values.
constexpr int64_t kQ8GroupBytes = kKvLanes * 2 + kQ8Values * kKvLanes;

void quantize_q8(const float* x, minfer_f16* scale, int8_t* values, int64_t stride) {
  float largest = 0.0f;
  for (int64_t i = 0; i < kQ8Values; ++i) largest = std::fmax(largest, std::fabs(x[i]));
  *scale = minfer_f32_to_f16(largest / 127.0f);
  const float inverse = largest > 0.0f ? 127.0f / largest : 0.0f;
  for (int64_t i = 0; i < kQ8Values; ++i) {
    values[i * stride] = static_cast<int8_t>(std::round(x[i] * inverse));
  }
}

struct Q8Kv {
  static int64_t k_block_bytes(int64_t dim) { return dim / kQ8Values * kQ8GroupBytes; }
  static int64_t v_row_bytes(int64_t dim) {
    return dim / kQ8Values * static_cast<int64_t>(sizeof(minfer_block_q8_0));
  }
  static void store_k(const float* k, int64_t dim, uint8_t* block, int64_t lane) {
    for (int64_t d = 0; d < dim; d += kQ8Values, block += kQ8GroupBytes) {
      int8_t* values = reinterpret_cast<int8_t*>(block + kKvLanes * 2) + lane;
      quantize_q8(k + d, reinterpret_cast<minfer_f16*>(block) + lane, values, kKvLanes);
    }
  }
  static void store_v(const float* v, int64_t dim, uint8_t* row) {
    for (int64_t d = 0; d < dim; d += kQ8Values, row += sizeof(minfer_block_q8_0)) {
      auto* block = reinterpret_cast<minfer_block_q8_0*>(row);
      quantize_q8(v + d, &block->d, block->qs, 1);
    }
  }
  static void load_k(const uint8_t* block, int64_t lane, int64_t dim, float* k) {
    for (int64_t d = 0; d < dim; d += kQ8Values, block += kQ8GroupBytes) {
      const float scale = minfer_f16_to_f32(reinterpret_cast<const minfer_f16*>(block)[lane]);
      const int8_t* values = reinterpret_cast<const int8_t*>(block + kKvLanes * 2) + lane;
      for (int64_t i = 0; i < kQ8Values; ++i) {
        k[d + i] = scale * static_cast<float>(values[i * kKvLanes]);
      }
    }
  }
  static void load_v(const uint8_t* row, int64_t dim, float* v) {
    minfer_dequantize_row(MINFER_TYPE_Q8_0, row, dim, v);
  }
};

// ---- attention over one page's part, for any type

constexpr int64_t kDims = 32;  // decoded at a time, so that no buffer depends on the head's size

template <class Kv>
void scores(const float* q, int64_t q_stride, int64_t nq, const uint8_t* k, int64_t n_blocks,
            int64_t dim, float* out, int64_t out_stride) {
  for (int64_t b = 0; b < n_blocks; ++b) {
    for (int64_t lane = 0; lane < kKvLanes; ++lane) {
      for (int64_t i = 0; i < nq; ++i) out[i * out_stride + b * kKvLanes + lane] = 0.0f;
    }
    const uint8_t* block = k + b * Kv::k_block_bytes(dim);
    for (int64_t d = 0; d < dim; d += kDims) {
      const int64_t n = dim - d < kDims ? dim - d : kDims;
      for (int64_t lane = 0; lane < kKvLanes; ++lane) {
        float key[kDims];
        Kv::load_k(block + Kv::k_block_bytes(d), lane, n, key);
        for (int64_t i = 0; i < nq; ++i) {
          const float* query = q + i * q_stride + d;
          float sum = 0.0f;
          for (int64_t e = 0; e < n; ++e) sum += query[e] * key[e];
          out[i * out_stride + b * kKvLanes + lane] += sum;
        }
      }
    }
  }
}

template <class Kv>
void values(const float* p, int64_t p_stride, int64_t nq, const uint8_t* v, int64_t nk, int64_t dim,
            float* acc, int64_t acc_stride) {
  for (int64_t j = 0; j < nk; ++j) {
    const uint8_t* row = v + j * Kv::v_row_bytes(dim);
    for (int64_t d = 0; d < dim; d += kDims) {
      const int64_t n = dim - d < kDims ? dim - d : kDims;
      float value[kDims];
      Kv::load_v(row + Kv::v_row_bytes(d), n, value);
      for (int64_t i = 0; i < nq; ++i) {
        const float weight = p[i * p_stride + j];
        for (int64_t e = 0; e < n; ++e) acc[i * acc_stride + d + e] += weight * value[e];
      }
    }
  }
}

template <class Kv>
constexpr KvOps kv_ops() {
  return {Kv::k_block_bytes, Kv::v_row_bytes, Kv::store_k, Kv::store_v,
          Kv::load_k,        Kv::load_v,      scores<Kv>,  values<Kv>};
}

constexpr VecOps kScalar = {"scalar",
                            add,
                            mul,
                            scale,
                            axpy,
                            silu,
                            silu_mul,
                            gelu,
                            gelu_mul,
                            soft_cap,
                            max,
                            arg_max,
                            exp_sum,
                            rms_norm,
                            add_rms_norm,
                            rope_neox,
                            rope_interleaved,
                            {kv_ops<PlainKv<F32>>(), kv_ops<PlainKv<F16>>(), kv_ops<Q8Kv>()}};

}  // namespace

const VecOps* vec_ops_scalar() {
  return &kScalar;
}

}  // namespace minfer_cpu
