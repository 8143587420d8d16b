// MMVQ: quantised matrix times one to eight int8 activation rows by dp4a (matmul.h).
//
// Decode streams weights, so everything here serves the loads: lane = row, so that a warp's load of
// a segment is 512 consecutive bytes and no lane waits for another; warps of a block share 32 rows
// and cut k between them, so that a few thousand rows still fill the device; the weights of a
// sub-block are decoded once for all tokens. Activations are read at warp-uniform addresses,
// through L1.
#include "matmul.h"
#include "mma.cuh"
#include "overlap.cuh"
#include "tile.cuh"

namespace minfer_cuda {
namespace {

constexpr int kMaxDepth = 2;  // items that a warp keeps in flight

/// Sub-blocks of an item: a K-quant's tile, or four tiles, about 4 KiB.
template <class T>
inline constexpr int kItemSubs = T::kSubs == 8 ? 8 : 4;
template <class T>
inline constexpr int kItemBytes = kItemSubs<T> / T::kSubs* T::kTileBytes;

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

/// Starts copying the item at sub-block `first` of a row group; ends a group of copies in any case.
template <class T>
__device__ __forceinline__ void fetch_item(uint8_t* to, const uint8_t* rows, int first, int subs) {
  if (first < subs) {
    const uint8_t* from = rows + int64_t{first / T::kSubs} * T::kTileBytes;
    const int tiles = min(kItemSubs<T>, subs - first) / T::kSubs;
    const int units = tiles * T::kTileBytes / 16;
    for (int i = threadIdx.x & 31; i < units; i += 32) copy16_async(to + i * 16, from + i * 16);
  }
  end_copies();
}

template <uint32_t Type, int N>
__global__ void mmvq_kernel(const SegmentGroups groups, const Int8Rows x, int depth) {
  using T = Tile<Type>;
  constexpr int kItem = kItemSubs<T>;
  // The warps' rings [warps][depth][kItemBytes], then their sums [warps][N][32].
  extern __shared__ __align__(16) uint8_t shared[];
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, warps = blockDim.x >> 5;
  int group = blockIdx.x;
  const MatmulSegment& s = find_segment(groups, group);
  const int id = groups.call.id, tokens = groups.call.tokens, subs = id / 32;
  const int valid = valid_of(groups.call.valid, tokens);
  float acc[N] = {};
  if (valid == 0) start_overlapped();
  if (valid > 0) {
    const uint8_t* rows = s.weight + int64_t{group} * (id / T::kBlockK) * T::kTileBytes;
    uint8_t* ring = shared + warp * depth * kItemBytes<T>;
    const int step = warps * kItem;
    for (int d = 0; d < depth; ++d) {
      fetch_item<T>(ring + d * kItemBytes<T>, rows, warp * kItem + d * step, subs);
    }
    start_overlapped();  // the first weights are on their way, the activations need not be there
    int slot = 0;
    for (int first = warp * kItem; first < subs; first += step) {
      if (depth == kMaxDepth)
        copies_left<kMaxDepth - 1>();
      else
        copies_left<0>();
      __syncwarp();
      uint8_t* item = ring + slot * kItemBytes<T>;
#pragma unroll
      for (int i = 0; i < kItem; ++i) {
        if (T::kSubs == 1 && first + i >= subs) break;
        add_sub_block<T>(item + i / T::kSubs * T::kTileBytes, lane, i % T::kSubs, first + i, x, id,
                         valid, acc);
      }
      __syncwarp();
      fetch_item<T>(item, rows, first + depth * step, subs);
      slot = slot + 1 == depth ? 0 : slot + 1;
    }
  }
  __syncthreads();
  auto* sums = reinterpret_cast<float*>(shared);
#pragma unroll
  for (int t = 0; t < N; ++t) sums[(warp * N + t) * 32 + lane] = acc[t];
  __syncthreads();
  for (int t = warp; t < tokens; t += warps) {
    float v = 0.f;
    for (int w = 0; w < warps; ++w) v += sums[(w * N + t) * 32 + lane];
    put_result(s, group * kTileRows + lane, t, t >= valid, v);
  }
}

/// Warps that cut `items` with the least idle share: up to 16 where blocks are few, up to 8 where
/// they are many.
int choose_warps(int items, int blocks) {
  const int most = blocks < 264 ? 16 : 8;
  if (items <= most) return items > 0 ? items : 1;
  int best = most;
  for (int w = most - 1; w >= most / 2; --w) {
    if ((items + w - 1) / w * w < (items + best - 1) / best * best) best = w;
  }
  return best;
}

template <uint32_t Type, int N>
cudaError_t launch_for(const SegmentGroups& groups, int total, const Int8Rows& x, bool overlap,
                       cudaStream_t stream) {
  using T = Tile<Type>;
  constexpr int kItem = 32 * kItemSubs<T>;
  const int items = (groups.call.id + kItem - 1) / kItem;
  int warps = choose_warps(items, total);
  int depth = items > warps ? kMaxDepth : 1;
  const auto bytes = [&] {
    const int ring = warps * depth * kItemBytes<T>, sums = warps * N * 32 * 4;
    return ring > sums ? ring : sums;
  };
  while (bytes() > groups.call.shared_limit && warps > 1) {
    if (depth > 1)
      depth = 1;
    else
      warps = (warps + 1) / 2;
  }
  const cudaError_t error = cudaFuncSetAttribute(
      mmvq_kernel<Type, N>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes());
  if (error != cudaSuccess) return error;
  return launch_overlapped(overlap, mmvq_kernel<Type, N>, dim3(static_cast<unsigned>(total)),
                           warps * 32, static_cast<size_t>(bytes()), stream, groups, x, depth);
}

}  // namespace

cudaError_t launch_mmvq(const MatmulCall& call, Int8Rows x, bool overlap, cudaStream_t stream) {
  if (call.tokens == 0) return cudaSuccess;
  if (call.tokens > kMmvqMaxTokens) return cudaErrorInvalidValue;
  const auto run = [&](uint32_t type, const SegmentGroups& groups, int total) {
    cudaError_t error = cudaErrorInvalidValue;
    dispatch_type(type, [&]<uint32_t Type>() {
      if constexpr (Tile<Type>::kInt8) {
        if (call.tokens == 1)
          error = launch_for<Type, 1>(groups, total, x, overlap, stream);
        else if (call.tokens == 2)
          error = launch_for<Type, 2>(groups, total, x, overlap, stream);
        else if (call.tokens <= 4)
          error = launch_for<Type, 4>(groups, total, x, overlap, stream);
        else
          error = launch_for<Type, 8>(groups, total, x, overlap, stream);
      }
    });
    return error;
  };
  return for_each_type_run(call, kTileRows, run);
}

}  // namespace minfer_cuda
