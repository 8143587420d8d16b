// MMQ: quantised matrix times many int8 activation rows on int8 tensor cores (matmul.h).
//
// A block computes 128 weight rows times 32, 64 or 128 tokens. Weight tiles are staged as they are;
// a lane's fragment of mma.m16n8k32 is one 4-byte word of a row's 16-byte segment, so quants go
// from the staged tile to registers without an unpacked copy. Products of 32 elements are exact
// integers; scales (and minima times the activation's sum) are folded in after each. Types with two
// scales in 32 elements use m16n8k16. Where the grid is too small to fill the device, k is cut and
// a second kernel adds the parts in a fixed order.
#include "matmul.h"
#include "weight_stage.cuh"

namespace minfer_cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kRowWarps = 4;

template <class T>
inline constexpr int kXStride = kStageSubs<T> * 32 + 16;  // shifts the banks of consecutive tokens

template <class T, int BN>
struct Shared {
  alignas(16) uint8_t weights[2][kStageBytes<T>];
  alignas(16) int8_t x[2][BN * kXStride<T>];
  alignas(16) ActMeta meta[2][BN * kStageSubs<T>];
  float2 scales[kStageSubs<T> * kBlockRows];  ///< (s, m), or (s0, s1) with two scales
};

template <class T, int BN>
__device__ __forceinline__ void stage_activations(Shared<T, BN>& sh, int buffer, const Int8Rows& x,
                                                  int id, int first_token, int tokens, int sub,
                                                  int subs) {
  const int n = min(kStageSubs<T>, subs - sub);
  for (int i = threadIdx.x; i < BN * n * 2; i += kThreads) {
    const int token = i / (n * 2), unit = i % (n * 2);
    const int64_t from = min(first_token + token, tokens - 1);
    copy16_async(&sh.x[buffer][token * kXStride<T> + unit * 16],
                 x.quants + from * id + sub * 32 + unit * 16);
  }
  for (int i = threadIdx.x; i < BN * n; i += kThreads) {
    const int token = i / n, s = i % n;
    const int64_t from = min(first_token + token, tokens - 1);
    copy8_async(&sh.meta[buffer][token * kStageSubs<T> + s], x.meta + from * subs + sub + s);
  }
}

template <class T, int BN>
__device__ __forceinline__ void unpack_scales(Shared<T, BN>& sh, int buffer, int n) {
  for (int i = threadIdx.x; i < n * kBlockRows; i += kThreads) {
    const int row = i % kBlockRows, sub = i / kBlockRows;
    const uint8_t* tile = staged_tile<T>(sh.weights[buffer], row / kTileRows, sub);
    const Scales s = T::scales(tile, row % kTileRows, sub % T::kSubs);
    sh.scales[i] = make_float2(s.s0, T::kTwoScales ? s.s1 : s.m0);
  }
}

/// Adds one sub-block's products to a warp's 32 rows x (8 NT) tokens.
template <class T, int BN, int NT>
__device__ __forceinline__ void multiply_sub(const Shared<T, BN>& sh, int buffer, int sub,
                                             int row_warp, int first, float (&acc)[2][NT][4]) {
  const int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
  const uint8_t* tile = staged_tile<T>(sh.weights[buffer], row_warp, sub);
  const int b = sub % T::kSubs;
  int a[2][4];
  float2 s[2][2];
#pragma unroll
  for (int m = 0; m < 2; ++m) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int row = m * 16 + h * 8 + g;
      a[m][h] = T::word(tile, row, b, t);
      a[m][h + 2] = T::word(tile, row, b, t + 4);
      s[m][h] = sh.scales[sub * kBlockRows + row_warp * kTileRows + row];
    }
  }
#pragma unroll
  for (int n = 0; n < NT; ++n) {
    const int8_t* x = &sh.x[buffer][(first + n * 8 + g) * kXStride<T> + sub * 32 + t * 4];
    const int b0 = *reinterpret_cast<const int*>(x), b1 = *reinterpret_cast<const int*>(x + 16);
    const ActMeta* meta = &sh.meta[buffer][(first + n * 8 + t * 2) * kStageSubs<T> + sub];
    const ActMeta meta0 = meta[0], meta1 = meta[kStageSubs<T>];
#pragma unroll
    for (int m = 0; m < 2; ++m) {
      if constexpr (T::kTwoScales) {
        int low[4], high[4];
        mma_int8_k16(low, a[m][0], a[m][1], b0);
        mma_int8_k16(high, a[m][2], a[m][3], b1);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const float2 sc = s[m][i >> 1];
          const float v = sc.x * static_cast<float>(low[i]) + sc.y * static_cast<float>(high[i]);
          acc[m][n][i] = fmaf(v, i & 1 ? meta1.d : meta0.d, acc[m][n][i]);
        }
      } else {
        int c[4];
        mma_int8_k32(c, a[m], b0, b1);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const float2 sc = s[m][i >> 1];
          const ActMeta& token = i & 1 ? meta1 : meta0;
          float v = sc.x * static_cast<float>(c[i]);
          if constexpr (T::kHasMin) v = fmaf(sc.y, static_cast<float>(token.lo + token.hi), v);
          acc[m][n][i] = fmaf(v, token.d, acc[m][n][i]);
        }
      }
    }
  }
}

/// Hands each of a lane's results to put(row of the block, token of the block, value).
template <int NT, class F>
__device__ __forceinline__ void each_result(const float (&acc)[2][NT][4], int row_warp, int first,
                                            F put) {
  const int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
#pragma unroll
  for (int m = 0; m < 2; ++m) {
#pragma unroll
    for (int n = 0; n < NT; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        put(row_warp * kTileRows + m * 16 + (i >> 1) * 8 + g, first + n * 8 + t * 2 + (i & 1),
            acc[m][n][i]);
      }
    }
  }
}

template <uint32_t Type, int BN>
__global__ void __launch_bounds__(kThreads)
    mmq_kernel(const SegmentGroups groups, const Int8Rows x, float* partial, int padded_rows) {
  using T = Tile<Type>;
  constexpr int NT = BN / 16;
  extern __shared__ __align__(16) uint8_t raw[];
  auto& sh = *reinterpret_cast<Shared<T, BN>*>(raw);
  int group = blockIdx.y;
  const MatmulSegment& s = find_segment(groups, group);
  const int id = groups.call.id, tokens = groups.call.tokens, subs = id / 32;
  const int valid = valid_of(groups.call.valid, tokens), first_token = blockIdx.x * BN;
  const int row_warp = (threadIdx.x >> 5) % kRowWarps;
  const int first = (threadIdx.x >> 5) / kRowWarps * (BN / 2);
  // Cuts along k are whole stages.
  const int stages = (subs + kStageSubs<T> - 1) / kStageSubs<T>;
  const int begin = static_cast<int>(int64_t{stages} * blockIdx.z / gridDim.z);
  const int end = static_cast<int>(int64_t{stages} * (blockIdx.z + 1) / gridDim.z);

  float acc[2][NT][4] = {};
  if (first_token < valid) {
    const WeightRows rows{s.weight, group * kBlockGroups, (s.od + kTileRows - 1) / kTileRows,
                          id / T::kBlockK};
    const auto stage = [&](int i, int buffer) {
      stage_weights<T>(sh.weights[buffer], rows, i * kStageSubs<T>, subs);
      stage_activations<T, BN>(sh, buffer, x, id, first_token, tokens, i * kStageSubs<T>, subs);
    };
    if (begin < end) stage(begin, 0);
    for (int i = begin; i < end; ++i) {
      const int buffer = (i - begin) & 1, n = min(kStageSubs<T>, subs - i * kStageSubs<T>);
      copies_done();
      __syncthreads();
      if (i + 1 < end) stage(i + 1, buffer ^ 1);
      unpack_scales<T, BN>(sh, buffer, n);
      __syncthreads();
      for (int sub = 0; sub < n; ++sub) {
        multiply_sub<T, BN, NT>(sh, buffer, sub, row_warp, first, acc);
      }
    }
  }
  if (partial) {
    float* part = partial + int64_t{blockIdx.z} * tokens * padded_rows;
    each_result<NT>(acc, row_warp, first, [&](int row, int token, float v) {
      const int at = first_token + token;
      if (at < tokens) part[int64_t{at} * padded_rows + blockIdx.y * kBlockRows + row] = v;
    });
    return;
  }
  each_result<NT>(acc, row_warp, first, [&](int row, int token, float v) {
    const int at = first_token + token;
    if (at < tokens) put_result(s, group * kBlockRows + row, at, at >= valid, v);
  });
}

__global__ void add_parts_kernel(const SegmentGroups groups, const float* partial, int splits,
                                 int padded_rows) {
  int group = blockIdx.x;
  const MatmulSegment& s = find_segment(groups, group);
  const int token = blockIdx.y, tokens = groups.call.tokens;
  float v = 0.f;
  for (int z = 0; z < splits; ++z) {
    v += partial[(int64_t{z} * tokens + token) * padded_rows + blockIdx.x * kBlockRows +
                 threadIdx.x];
  }
  put_result(s, group * kBlockRows + threadIdx.x, token,
             token >= valid_of(groups.call.valid, tokens), v);
}

template <uint32_t Type>
constexpr bool kTaken =
    Type == MINFER_TYPE_Q4_0 || Type == MINFER_TYPE_Q4_1 || Type == MINFER_TYPE_Q5_0 ||
    Type == MINFER_TYPE_Q5_1 || Type == MINFER_TYPE_Q8_0 || Type == MINFER_TYPE_Q4_K ||
    Type == MINFER_TYPE_Q5_K || Type == MINFER_TYPE_Q6_K;

int block_tokens(int tokens) {
  return tokens <= 32 ? 32 : tokens <= 64 ? 64 : 128;
}

template <uint32_t Type, int BN>
cudaError_t launch_for(const SegmentGroups& groups, int total, const Int8Rows& x, int splits,
                       float* workspace, cudaStream_t stream) {
  constexpr auto kBytes = static_cast<int>(sizeof(Shared<Tile<Type>, BN>));
  const cudaError_t error = cudaFuncSetAttribute(
      mmq_kernel<Type, BN>, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
  if (error != cudaSuccess) return error;
  const int tokens = groups.call.tokens, padded = total * kBlockRows;
  mmq_kernel<Type, BN><<<dim3((tokens + BN - 1) / BN, total, splits), kThreads, kBytes, stream>>>(
      groups, x, splits > 1 ? workspace : nullptr, padded);
  if (splits > 1) {
    add_parts_kernel<<<dim3(total, tokens), kBlockRows, 0, stream>>>(groups, workspace, splits,
                                                                     padded);
  }
  return cudaPeekAtLastError();
}

}  // namespace

bool mmq_supports(uint32_t type) {
  return mmq_shared_bytes(type, 1) > 0;
}

uint64_t mmq_shared_bytes(uint32_t type, int tokens) {
  uint64_t bytes = 0;
  dispatch_type(type, [&]<uint32_t Type>() {
    if constexpr (kTaken<Type>) {
      using T = Tile<Type>;
      const int bn = block_tokens(tokens);
      bytes = bn == 32   ? sizeof(Shared<T, 32>)
              : bn == 64 ? sizeof(Shared<T, 64>)
                         : sizeof(Shared<T, 128>);
    }
  });
  return bytes;
}

int mmq_splits(int id, int total_groups, int tokens, int sms) {
  const int bn = block_tokens(tokens);
  const int blocks = (total_groups + kBlockGroups - 1) / kBlockGroups * ((tokens + bn - 1) / bn);
  // A part must be long enough to pay for writing and adding it; two blocks share an SM.
  const int most = id / 512 < 8 ? id / 512 : 8;
  const int wanted = blocks > 0 ? 2 * sms / blocks : 1;
  return wanted < 2 || most < 2 ? 1 : wanted < most ? wanted : most;
}

uint64_t mmq_workspace_bytes(int total_od, int tokens, int splits) {
  const auto rows = static_cast<uint64_t>(total_od + kMaxSegments * kBlockRows);
  return rows * static_cast<uint64_t>(tokens) * static_cast<uint64_t>(splits) * sizeof(float);
}

cudaError_t launch_mmq(const MatmulCall& call, Int8Rows x, int splits, float* workspace,
                       cudaStream_t stream) {
  if (call.tokens == 0) return cudaSuccess;
  const auto run = [&](uint32_t type, const SegmentGroups& groups, int total) {
    cudaError_t error = cudaErrorInvalidValue;
    dispatch_type(type, [&]<uint32_t Type>() {
      if constexpr (kTaken<Type>) {
        const int bn = block_tokens(call.tokens);
        error = bn == 32   ? launch_for<Type, 32>(groups, total, x, splits, workspace, stream)
                : bn == 64 ? launch_for<Type, 64>(groups, total, x, splits, workspace, stream)
                           : launch_for<Type, 128>(groups, total, x, splits, workspace, stream);
      }
    });
    return error;
  };
  return for_each_type_run(call, kBlockRows, run);
}

}  // namespace minfer_cuda
