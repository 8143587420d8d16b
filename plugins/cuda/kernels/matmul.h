// Matrix kernels: what a launch computes, and the launchers of each family.
//
// A call multiplies one activation by up to four matrices of one input length (QKV, gate and up):
//   out[o, t] = sum_i weight[i, o] * x[i, t] + bias[o] + residual[o, t]
// Weights are in tile32. Every family accumulates in f32 (integer products exactly, per 32
// elements) and writes zeros for padding tokens.
#pragma once

#include "activation.h"

namespace minfer_cuda {

struct MatmulSegment {
  const uint8_t* weight = nullptr;  ///< tile32
  uint32_t type = 0;                ///< MINFER_TYPE_*
  int32_t od = 0;                   ///< rows
  const float* bias = nullptr;      ///< [od] or null
  const float* residual = nullptr;  ///< added after the bias, or null; may be `out` itself
  int64_t residual_stride = 0;      ///< in floats
  float* out = nullptr;
  int64_t out_stride = 0;  ///< in floats
};

inline constexpr int kMaxSegments = 4;

struct MatmulCall {
  MatmulSegment segments[kMaxSegments];
  int32_t n_segments = 0;
  int32_t id = 0;
  int32_t tokens = 0;               ///< capacity
  const int32_t* valid = nullptr;   ///< tokens in use, or null for all
  int32_t shared_limit = 48 << 10;  ///< bytes of shared memory that a block may use
};

/// Any type with a layout, f32 activations, any number of tokens: the foot of the ladder. x 4-byte
/// aligned rows. Tolerance 1e-5 against the dequantised weights.
cudaError_t launch_matmul_generic(const MatmulCall& call, const float* x, int64_t x_stride,
                                  cudaStream_t stream);

/// Quantised types, 1 to 8 tokens: dp4a on int8 activations, lane = weight row. Tolerance 2e-2.
inline constexpr int kMmvqMaxTokens = 8;
cudaError_t launch_mmvq(const MatmulCall& call, Int8Rows x, bool overlap, cudaStream_t stream);

/// Types of mmq_supports, any number of tokens: int8 tensor cores (sm_80 and later). Tolerance
/// 2e-2.
bool mmq_supports(uint32_t type);
/// Dynamic shared memory of the launch, to be compared with the device's limit.
uint64_t mmq_shared_bytes(uint32_t type, int tokens);
/// How many cuts along k fill the device; 1: none. `mmq_workspace_bytes` holds the partial sums.
int mmq_splits(int id, int total_groups, int tokens, int sms);
uint64_t mmq_workspace_bytes(int total_od, int tokens, int splits);
cudaError_t launch_mmq(const MatmulCall& call, Int8Rows x, int splits, float* workspace,
                       cudaStream_t stream);

/// Any type except F32 and BF16, any number of tokens: f16 tensor cores, weights dequantised into
/// shared memory (sm_70 and later). Tolerance 1e-3.
bool gemm_half_supports(uint32_t type);
cudaError_t launch_gemm_half(const MatmulCall& call, HalfRows x, cudaStream_t stream);

/// out[:, j, t] = weight[:, :, ids[j, t]]^T x[:, j or 0, t] with f32 activations. Strides in
/// floats.
struct ExpertCall {
  const uint8_t* weight = nullptr;
  uint32_t type = 0;
  int32_t id = 0, od = 0, experts = 0, k = 0, tokens = 0;
  const float* x = nullptr;
  int64_t x_slot_stride = 0, x_token_stride = 0;
  const int32_t* ids = nullptr;
  int64_t ids_token_stride = 0;
  float* out = nullptr;
  int64_t out_slot_stride = 0, out_token_stride = 0;
  const int32_t* valid = nullptr;
};
cudaError_t launch_matmul_experts(const ExpertCall& call, cudaStream_t stream);

/// The segments of one type in a launch, found by row group.
struct SegmentGroups {
  MatmulCall call;
  int32_t first_group[kMaxSegments + 1];
};

#ifdef __CUDACC__
/// Segment that row group `group` belongs to; `group` becomes relative to it.
__device__ __forceinline__ const MatmulSegment& find_segment(const SegmentGroups& g, int& group) {
  int s = 0;
  while (s + 1 < g.call.n_segments && group >= g.first_group[s + 1]) ++s;
  group -= g.first_group[s];
  return g.call.segments[s];
}

/// Writes one result with bias and residual, or zero for a padding token.
__device__ __forceinline__ void put_result(const MatmulSegment& s, int row, int token, bool padding,
                                           float v) {
  if (row >= s.od) return;
  if (padding) {
    v = 0.f;
  } else {
    if (s.bias) v += s.bias[row];
    if (s.residual) v += s.residual[token * s.residual_stride + row];
  }
  s.out[token * s.out_stride + row] = v;
}

/// Launches f.template operator()<Type>(groups, total) once per run of segments of one type, so
/// that a call of mixed types (Q4_K query and key, Q6_K value) works with kernels of one type each.
template <class F>
cudaError_t for_each_type_run(const MatmulCall& call, int rows_per_group, F&& f) {
  for (int s = 0; s < call.n_segments;) {
    SegmentGroups run{};
    run.call = call;
    run.call.n_segments = 0;
    int groups = 0;
    const uint32_t type = call.segments[s].type;
    while (s < call.n_segments && call.segments[s].type == type) {
      const int i = run.call.n_segments++;
      run.call.segments[i] = call.segments[s];
      run.first_group[i] = groups;
      groups += (call.segments[s].od + rows_per_group - 1) / rows_per_group;
      run.first_group[i + 1] = groups;
      ++s;
    }
    const cudaError_t error = f(type, run, groups);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}
#endif

}  // namespace minfer_cuda
