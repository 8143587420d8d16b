// The reference matmul kernels: one per weight type. A row is dequantised to f32 exactly as its
// type defines it, then multiplied with f32 activations. Slow and plain on purpose: every other
// kernel is measured against these. Weights stay as the file has them. Thread-safe on disjoint
// rows.
#include <cstring>

#include "matmul_list.h"
#include "minfer/quant_blocks.h"

namespace minfer_cpu {
namespace {

template <uint32_t Type>
uint64_t row_bytes(int64_t id) {
  return static_cast<uint64_t>(id / minfer_type_values(Type)) * minfer_type_bytes(Type);
}

template <uint32_t Type>
bool fits(int64_t id, int64_t) {
  return id % minfer_type_values(Type) == 0;
}

template <uint32_t Type>
uint64_t packed_bytes(int64_t id, int64_t od) {
  return row_bytes<Type>(id) * static_cast<uint64_t>(od);
}

template <uint32_t Type>
void unpack_row(const uint8_t* packed, int64_t id, int64_t, int64_t row, float* out) {
  minfer_dequantize_row(Type, packed + row_bytes<Type>(id) * static_cast<uint64_t>(row), id, out);
}

uint64_t activation_bytes(int64_t id, int64_t nt) {
  return static_cast<uint64_t>(id * nt) * 4;
}

void convert(const float* x, int64_t stride, int64_t id, int64_t, int64_t t0, int64_t t1,
             uint8_t* out) {
  float* rows = reinterpret_cast<float*>(out);
  for (int64_t t = t0; t < t1; ++t) {
    std::memcpy(rows + t * id, x + t * stride, static_cast<size_t>(id) * sizeof(float));
  }
}

// Eight partial sums keep the rounding error small and let the compiler use plain SSE.
float dot(const float* a, const float* b, int64_t n) {
  float sums[8] = {};
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    for (int lane = 0; lane < 8; ++lane) sums[lane] += a[i + lane] * b[i + lane];
  }
  for (; i < n; ++i) sums[i % 8] += a[i] * b[i];
  return ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
}

template <uint32_t Type>
void run(const uint8_t* packed, int64_t id, int64_t od, const uint8_t* activation, int64_t nt,
         int64_t row0, int64_t row1, const float* bias, float* out, int64_t out_stride,
         uint8_t* scratch) {
  float* row = reinterpret_cast<float*>(scratch);
  const float* x = reinterpret_cast<const float*>(activation);
  for (int64_t o = row0; o < row1; ++o) {
    unpack_row<Type>(packed, id, od, o, row);
    for (int64_t t = 0; t < nt; ++t) {
      out[t * out_stride + o] = dot(row, x + t * id, id) + (bias != nullptr ? bias[o] : 0.0f);
    }
  }
}

uint64_t scratch_bytes(int64_t id, int64_t) {
  return static_cast<uint64_t>(id) * sizeof(float);
}

template <uint32_t Type>
constexpr MatmulKernel kernel(const char* label) {
  return {label,
          Type,
          ActFormat::kF32,
          1,
          fits<Type>,
          packed_bytes<Type>,
          nullptr,
          unpack_row<Type>,
          activation_bytes,
          convert,
          run<Type>,
          scratch_bytes};
}

constexpr MatmulKernel kKernels[] = {
    kernel<MINFER_TYPE_F32>("f32/scalar"),       kernel<MINFER_TYPE_F16>("f16/scalar"),
    kernel<MINFER_TYPE_BF16>("bf16/scalar"),     kernel<MINFER_TYPE_Q4_0>("q4_0/scalar"),
    kernel<MINFER_TYPE_Q4_1>("q4_1/scalar"),     kernel<MINFER_TYPE_Q5_0>("q5_0/scalar"),
    kernel<MINFER_TYPE_Q5_1>("q5_1/scalar"),     kernel<MINFER_TYPE_Q8_0>("q8_0/scalar"),
    kernel<MINFER_TYPE_Q2_K>("q2_k/scalar"),     kernel<MINFER_TYPE_Q3_K>("q3_k/scalar"),
    kernel<MINFER_TYPE_Q4_K>("q4_k/scalar"),     kernel<MINFER_TYPE_Q5_K>("q5_k/scalar"),
    kernel<MINFER_TYPE_Q6_K>("q6_k/scalar"),     kernel<MINFER_TYPE_IQ4_NL>("iq4_nl/scalar"),
    kernel<MINFER_TYPE_IQ4_XS>("iq4_xs/scalar"), kernel<MINFER_TYPE_MXFP4>("mxfp4/scalar"),
};

}  // namespace

KernelList matmul_kernels_scalar() {
  return {kKernels, static_cast<uint32_t>(sizeof kKernels / sizeof kKernels[0])};
}

}  // namespace minfer_cpu
