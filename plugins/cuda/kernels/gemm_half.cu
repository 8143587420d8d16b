// Matrix times many f16 activation rows on f16 tensor cores, weights dequantised on the way
// (matmul.h).
//
// A block computes 128 weight rows times 128 tokens. Weight tiles are staged as they are; every 64
// of k are dequantised into an f16 tile in shared memory, which eight warps multiply (each 32 rows
// x 64 tokens). Serves every type, and the devices whose integer tensor cores are missing.
#include "matmul.h"
#include "weight_stage.cuh"

namespace minfer_cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kTokens = 128;
constexpr int kStep = 64;           // of k
constexpr int kStride = kStep + 8;  // halves; an odd number of 16-byte units, so no bank conflicts

template <class T>
struct Shared {
  alignas(16) uint8_t raw[2][kStageBytes<T>];
  alignas(16) __half w[kBlockRows * kStride];
  alignas(16) __half x[2][kTokens * kStride];
};

/// Starts copying 64 of k of the tokens' rows; what lies past a row's end becomes zero.
__device__ __forceinline__ void stage_x(__half* to, const __half* x, int row_elements,
                                        int first_token, int tokens, int k) {
  for (int i = threadIdx.x; i < kTokens * kStep / 8; i += kThreads) {
    const int token = i / (kStep / 8), unit = i % (kStep / 8);
    __half* at = to + token * kStride + unit * 8;
    if (k + unit * 8 < row_elements) {
      const int64_t from = min(first_token + token, tokens - 1);
      copy16_async(at, x + from * row_elements + k + unit * 8);
    } else {
      *reinterpret_cast<uint4*>(at) = make_uint4(0, 0, 0, 0);
    }
  }
}

/// One sub-block of one row per thread: 128 rows times two sub-blocks.
template <uint32_t Type>
__device__ __forceinline__ void unpack_weights(Shared<Tile<Type>>& sh, int buffer, int sub, int n) {
  using T = Tile<Type>;
  const int row = threadIdx.x % kBlockRows, half = threadIdx.x / kBlockRows;
  auto* to = reinterpret_cast<uint32_t*>(sh.w + row * kStride + half * 32);
  if (sub + half >= n) {
#pragma unroll
    for (int i = 0; i < 16; ++i) to[i] = 0;
    return;
  }
  float v[32];
  dequantize32<Type>(staged_tile<T>(sh.raw[buffer], row / kTileRows, sub + half), row % kTileRows,
                     (sub + half) % T::kSubs, v);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    uint4 out;
    out.x = pack_half2(v[8 * i], v[8 * i + 1]), out.y = pack_half2(v[8 * i + 2], v[8 * i + 3]);
    out.z = pack_half2(v[8 * i + 4], v[8 * i + 5]), out.w = pack_half2(v[8 * i + 6], v[8 * i + 7]);
    reinterpret_cast<uint4*>(to)[i] = out;
  }
}

__device__ __forceinline__ void multiply_step(const __half* w, const __half* x, int row0,
                                              int token0, float (&acc)[2][8][4]) {
  const int lane = threadIdx.x & 31;
#pragma unroll
  for (int k = 0; k < kStep; k += 16) {
    uint32_t a[2][4];
#pragma unroll
    for (int m = 0; m < 2; ++m) {
      load_matrices(a[m], w + (row0 + m * 16 + lane % 16) * kStride + k + lane / 16 * 8);
    }
#pragma unroll
    for (int n = 0; n < 8; n += 2) {
      uint32_t b[4];
      load_matrices(
          b, x + (token0 + n * 8 + lane % 8 + lane / 16 * 8) * kStride + k + lane / 8 % 2 * 8);
#pragma unroll
      for (int m = 0; m < 2; ++m) {
        mma_f16(acc[m][n], a[m], b[0], b[1]);
        mma_f16(acc[m][n + 1], a[m], b[2], b[3]);
      }
    }
  }
}

template <uint32_t Type>
__global__ void __launch_bounds__(kThreads)
    gemm_kernel(const SegmentGroups groups, const HalfRows x) {
  using T = Tile<Type>;
  extern __shared__ __align__(16) uint8_t raw[];
  auto& sh = *reinterpret_cast<Shared<T>*>(raw);
  int group = blockIdx.y;
  const MatmulSegment& s = find_segment(groups, group);
  const int id = groups.call.id, tokens = groups.call.tokens, subs = (id + 31) / 32;
  const int valid = valid_of(groups.call.valid, tokens), first_token = blockIdx.x * kTokens;
  const int warp = threadIdx.x >> 5, row0 = warp % 4 * 32, token0 = warp / 4 * 64;
  const auto* rows_of_x = reinterpret_cast<const __half*>(x.data);
  float acc[2][8][4] = {};
  if (first_token < valid) {
    const WeightRows rows{s.weight, group * kBlockGroups, (s.od + kTileRows - 1) / kTileRows,
                          tiles_of_row<T>(id)};
    constexpr int kPerStage = kStageSubs<T> / 2;  // steps of 64 in a stage
    const int steps = (subs + 1) / 2;
    stage_weights<T>(sh.raw[0], rows, 0, subs);
    stage_x(sh.x[0], rows_of_x, subs * 32, first_token, tokens, 0);
    for (int i = 0; i < steps; ++i) {
      const int stage = i / kPerStage, sub = i % kPerStage * 2;
      copies_done();
      __syncthreads();
      if (i + 1 < steps) {
        stage_x(sh.x[(i + 1) & 1], rows_of_x, subs * 32, first_token, tokens, (i + 1) * kStep);
      }
      if (sub == 0 && (stage + 1) * kStageSubs<T> < subs) {
        stage_weights<T>(sh.raw[(stage + 1) & 1], rows, (stage + 1) * kStageSubs<T>, subs);
      }
      unpack_weights<Type>(sh, stage & 1, sub, subs - stage * kStageSubs<T>);
      __syncthreads();
      multiply_step(sh.w, sh.x[i & 1], row0, token0, acc);
    }
  }
  const int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
#pragma unroll
  for (int n = 0; n < 8; ++n) {
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      const int token = first_token + token0 + n * 8 + t * 2 + c;
      if (token >= tokens) continue;
      const float scale = x.scale[token];
#pragma unroll
      for (int m = 0; m < 4; ++m) {
        put_result(s, group * kBlockRows + row0 + m * 8 + g, token, token >= valid,
                   acc[m >> 1][n][(m & 1) * 2 + c] * scale);
      }
    }
  }
}

template <uint32_t Type>
constexpr bool kTaken = Type != MINFER_TYPE_F32&& Type != MINFER_TYPE_BF16;

}  // namespace

bool gemm_half_supports(uint32_t type) {
  bool known = false;
  dispatch_type(type, [&]<uint32_t Type>() { known = kTaken<Type>; });
  return known;
}

cudaError_t launch_gemm_half(const MatmulCall& call, HalfRows x, cudaStream_t stream) {
  if (call.tokens == 0) return cudaSuccess;
  const auto run = [&](uint32_t type, const SegmentGroups& groups, int total) {
    cudaError_t error = cudaErrorInvalidValue;
    dispatch_type(type, [&]<uint32_t Type>() {
      if constexpr (kTaken<Type>) {
        constexpr auto kBytes = static_cast<int>(sizeof(Shared<Tile<Type>>));
        error = cudaFuncSetAttribute(gemm_kernel<Type>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                     kBytes);
        if (error != cudaSuccess) return;
        const dim3 grid((call.tokens + kTokens - 1) / kTokens, total);
        gemm_kernel<Type><<<grid, kThreads, kBytes, stream>>>(groups, x);
        error = cudaPeekAtLastError();
      }
    });
    return error;
  };
  return for_each_type_run(call, kBlockRows, run);
}

}  // namespace minfer_cuda
