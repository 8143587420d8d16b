// Hopper prefill attention: shared memory, its barriers, and the warp that brings K and V tiles
// (see attention.cu).
//
// K tiles are [positions][64 dims] panels with k contiguous, V the same panels read as the
// transposed operand; both as the pages hold them, so no thread copies a position.
#pragma once

#include <cuda.h>

#include "attention_items.cuh"

namespace minfer_cuda::hopper {

/// Floats that one warpgroup's rows of a part take in the workspace: sums, then largest score and
/// sum of each row.
constexpr int part_floats(int dim) {
  return 64 * dim + 128;
}

/// Places in dynamic shared memory, from a 1024-byte boundary.
template <int D>
struct Layout {
  static constexpr int kKeys = D > 128 ? 64 : 128;  ///< positions of a tile
  static constexpr int kStages = 2;
  static constexpr int kPanels = (D + 63) / 64;  ///< of 64 dims; a last one is filled with zeros
  static constexpr uint32_t kPanel = kKeys * 128;
  static constexpr uint32_t kTile = kPanels * kPanel;
  static constexpr uint32_t kQPanel = 64 * 128;
  static constexpr uint32_t kQ = kPanels * kQPanel;  ///< of one warpgroup
  static constexpr uint32_t kKAt = 2 * kQ;
  static constexpr uint32_t kVAt = kKAt + kStages * kTile;
  static constexpr uint32_t kItemAt = kVAt + kStages * kTile;
  static constexpr uint32_t kLastAt = kItemAt + kItems * sizeof(PlannedItem);  ///< see join_parts
  static constexpr uint32_t kBarrierAt = kLastAt + 8;
  static constexpr uint32_t kBarriers = 4 * kStages + 2 * kItems + 1;
  static constexpr uint32_t kTotal = kBarrierAt + kBarriers * 8 + 1024;
  static_assert(kLastAt % 8 == 0);

  static constexpr int kPartFloats = part_floats(D);
};

struct AttentionParams {
  AttentionCall call;
  int32_t box;  ///< positions that one copy brings, all of one page
  uint32_t overlap;
  float* workspace;
  uint32_t* counters;
};

#ifdef MINFER_SM90A

/// The barriers in shared memory, by address.
template <int D>
struct Barriers {
  using L = Layout<D>;
  uint32_t base;
  __device__ __forceinline__ uint32_t k_full(int i) const { return base + 8 * i; }
  __device__ __forceinline__ uint32_t k_empty(int i) const { return base + 8 * (L::kStages + i); }
  __device__ __forceinline__ uint32_t v_full(int i) const {
    return base + 8 * (2 * L::kStages + i);
  }
  __device__ __forceinline__ uint32_t v_empty(int i) const {
    return base + 8 * (3 * L::kStages + i);
  }
  __device__ __forceinline__ uint32_t item_full(int i) const {
    return base + 8 * (4 * L::kStages + i);
  }
  __device__ __forceinline__ uint32_t item_empty(int i) const {
    return base + 8 * (4 * L::kStages + kItems + i);
  }
  __device__ __forceinline__ uint32_t v_partial() const {
    return base + 8 * (4 * L::kStages + 2 * kItems);
  }
  /// One thread of the block; eight consumer warps.
  __device__ __forceinline__ void init() const {
    for (int i = 0; i < L::kStages; ++i) {
      barrier_init(k_full(i), 1);
      barrier_init(v_full(i), 1);
      barrier_init(k_empty(i), 8);
      barrier_init(v_empty(i), 8);
    }
    for (int i = 0; i < kItems; ++i) {
      barrier_init(item_full(i), 1);
      barrier_init(item_empty(i), 9);  // and the loading warp
    }
    barrier_init(v_partial(), 1);
    fence_async();
  }
};

template <int D>
struct Loader {
  using L = Layout<D>;
  const AttentionParams& p;
  const Barriers<D>& barriers;
  uint32_t base;
  uint32_t partial_parity = 0;

  /// Brings the positions [key, key + kKeys) that the sequence has; `barrier` hears of the bytes.
  __device__ __forceinline__ void copy_tile(const CUtensorMap* map, const Item& item, int key,
                                            uint32_t to, uint32_t barrier) const {
    const KvPages& kv = p.call.kv;
    const int lane = threadIdx.x & 31;
    const int boxes = (min(item.kv_len - key, L::kKeys) + p.box - 1) / p.box;
    if (lane == 0) barrier_expect(barrier, boxes * L::kPanels * p.box * 128);
    __syncwarp();
    for (int i = lane; i < boxes * L::kPanels; i += 32) {
      const int panel = i % L::kPanels, row = i / L::kPanels * p.box, at = key + row;
      const int page = p.call.block_table[item.seq * p.call.max_pages + at / kv.page_tokens];
      tensor_copy_3d(to + panel * L::kPanel + row * 128, map, barrier, panel * 64,
                     item.kv_head * kv.page_tokens + at % kv.page_tokens, page);
    }
  }

  /// The same for V, whose rows behind the sequence's end become zeros: probabilities there are
  /// zero, but zero times what an unused place of a page holds need not be.
  __device__ __forceinline__ void copy_v(const CUtensorMap* map, const Item& item, int key,
                                         uint32_t to, uint32_t full) {
    const int rows = item.kv_len - key;
    if (rows >= L::kKeys) return copy_tile(map, item, key, to, full);
    copy_tile(map, item, key, to, barriers.v_partial());
    barrier_wait(barriers.v_partial(), partial_parity);
    partial_parity ^= 1;
    const int lane = threadIdx.x & 31;
    for (int i = lane; i < (L::kKeys - rows) * L::kPanels * 8; i += 32) {
      const int panel = i / ((L::kKeys - rows) * 8), unit = i % ((L::kKeys - rows) * 8);
      store_shared_16(to + panel * L::kPanel + rows * 128 + unit * 16, make_uint4(0, 0, 0, 0));
    }
    fence_async();
    __syncwarp();
    if (lane == 0) barrier_arrive(full);
  }

  __device__ __forceinline__ void run(const CUtensorMap* k_map, const CUtensorMap* v_map,
                                      const PlannedItem* items) {
    const int lane = threadIdx.x & 31;
    Ring<kItems> item_ring(0);
    Ring<L::kStages> k(1), v(1);
    for (;; item_ring.advance()) {
      barrier_wait(barriers.item_full(item_ring.at), item_ring.parity);
      const Item& from = items[item_ring.at].item;
      if (from.rows == 0) return;
      Item item;
      item.seq = from.seq, item.kv_head = from.kv_head, item.kv_len = from.kv_len;
      item.key = from.key, item.tiles = from.tiles;
      __syncwarp();
      if (lane == 0) barrier_arrive(barriers.item_empty(item_ring.at));
      for (int i = 0; i <= item.tiles; ++i) {
        if (i < item.tiles) {
          barrier_wait(barriers.k_empty(k.at), k.parity);
          copy_tile(k_map, item, item.key + i * L::kKeys, base + L::kKAt + k.at * L::kTile,
                    barriers.k_full(k.at));
          k.advance();
        }
        if (i > 0) {
          barrier_wait(barriers.v_empty(v.at), v.parity);
          copy_v(v_map, item, item.key + (i - 1) * L::kKeys, base + L::kVAt + v.at * L::kTile,
                 barriers.v_full(v.at));
          v.advance();
        }
      }
    }
  }
};

#endif  // MINFER_SM90A

}  // namespace minfer_cuda::hopper
