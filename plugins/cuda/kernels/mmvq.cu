// MMVQ: quantised matrix times one to eight int8 activation rows by dp4a (matmul.h).
//
// Decode streams weights, so everything here serves the loads: lane = row, so that a warp's load of
// a segment is 512 consecutive bytes and no lane waits for another; warps of a block share 32 rows
// and cut k between them, so that a few thousand rows still fill the device; the weights of a
// sub-block are decoded once for all tokens. Activations are read at warp-uniform addresses,
// through L1.
#include "matmul.h"
#include "tile.cuh"

namespace minfer_cuda {
namespace {

/// Sub-blocks a warp takes at a time: K-quants keep pairs together, which share their nibbles'
/// bytes.
template <class T>
inline constexpr int kItemSubs = T::kSubs == 8 ? 2 : 1;

template <class T, int N>
__device__ __forceinline__ void add_sub_block(const uint8_t* tile, int lane, int b, int sub,
                                              const Int8Rows& x, int id, int used,
                                              float (&acc)[N]) {
  int w[8];
  T::words(tile, lane, b, w);
  const Scales sc = T::scales(tile, lane, b);
#pragma unroll
  for (int t = 0; t < N; ++t) {
    if (N > 1 && t >= used) break;
    const auto* q = reinterpret_cast<const int4*>(x.quants + int64_t{t} * id + sub * 32);
    const ActMeta meta = x.meta[int64_t{t} * (id / 32) + sub];
    const int4 a = q[0], c = q[1];
    int lo = __dp4a(w[0], a.x, 0), hi = __dp4a(w[4], c.x, 0);
    lo = __dp4a(w[1], a.y, lo), hi = __dp4a(w[5], c.y, hi);
    lo = __dp4a(w[2], a.z, lo), hi = __dp4a(w[6], c.z, hi);
    lo = __dp4a(w[3], a.w, lo), hi = __dp4a(w[7], c.w, hi);
    float v;
    if constexpr (T::kTwoScales) {
      v = sc.s0 * static_cast<float>(lo) + sc.s1 * static_cast<float>(hi);
      if constexpr (T::kHasMin) {
        v += sc.m0 * static_cast<float>(meta.lo) + sc.m1 * static_cast<float>(meta.hi);
      }
    } else {
      v = sc.s0 * static_cast<float>(lo + hi);
      if constexpr (T::kHasMin) v += sc.m0 * static_cast<float>(meta.lo + meta.hi);
    }
    acc[t] = fmaf(v, meta.d, acc[t]);
  }
}

template <uint32_t Type, int N>
__global__ void mmvq_kernel(const SegmentGroups groups, const Int8Rows x) {
  using T = Tile<Type>;
  extern __shared__ float sums[];  // [warps][N][32]
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, warps = blockDim.x >> 5;
  int group = blockIdx.x;
  const MatmulSegment& s = find_segment(groups, group);
  const int id = groups.call.id, tokens = groups.call.tokens;
  const int valid = valid_of(groups.call.valid, tokens);
  const uint8_t* rows = s.weight + int64_t{group} * (id / T::kBlockK) * T::kTileBytes;
  float acc[N] = {};
  if (valid > 0) {
    constexpr int kItem = kItemSubs<T>;
    for (int item = warp; item * kItem * 32 < id; item += warps) {
#pragma unroll
      for (int i = 0; i < kItem; ++i) {
        const int sub = item * kItem + i;
        const uint8_t* tile = rows + int64_t{sub / T::kSubs} * T::kTileBytes;
        add_sub_block<T>(tile, lane, sub % T::kSubs, sub, x, id, valid, acc);
      }
    }
  }
#pragma unroll
  for (int t = 0; t < N; ++t) sums[(warp * N + t) * 32 + lane] = acc[t];
  __syncthreads();
  for (int t = warp; t < tokens; t += warps) {
    float v = 0.f;
    for (int w = 0; w < warps; ++w) v += sums[(w * N + t) * 32 + lane];
    put_result(s, group * kTileRows + lane, t, t >= valid, v);
  }
}

template <uint32_t Type, int N>
void launch_for(const SegmentGroups& groups, int total, const Int8Rows& x, cudaStream_t stream) {
  const int items = groups.call.id / (32 * kItemSubs<Tile<Type>>);
  const int wanted = total < 264 ? 16 : 8;
  const int warps = items < wanted ? (items > 0 ? items : 1) : wanted;
  mmvq_kernel<Type, N><<<total, warps * 32, warps * N * 32 * sizeof(float), stream>>>(groups, x);
}

}  // namespace

cudaError_t launch_mmvq(const MatmulCall& call, Int8Rows x, cudaStream_t stream) {
  if (call.tokens == 0) return cudaSuccess;
  if (call.tokens > kMmvqMaxTokens) return cudaErrorInvalidValue;
  const auto run = [&](uint32_t type, const SegmentGroups& groups, int total) {
    bool known = false;
    dispatch_type(type, [&]<uint32_t Type>() {
      if constexpr (Tile<Type>::kInt8) {
        known = true;
        if (call.tokens == 1)
          launch_for<Type, 1>(groups, total, x, stream);
        else if (call.tokens == 2)
          launch_for<Type, 2>(groups, total, x, stream);
        else if (call.tokens <= 4)
          launch_for<Type, 4>(groups, total, x, stream);
        else
          launch_for<Type, 8>(groups, total, x, stream);
      }
    });
    return known ? cudaPeekAtLastError() : cudaErrorInvalidValue;
  };
  return for_each_type_run(call, kTileRows, run);
}

}  // namespace minfer_cuda
