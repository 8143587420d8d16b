// Hopper prefill attention: items of work and the warp that plans them (see attention.cu).
//
// An item is a tile of query rows of one KV head. Blocks take items in turns, the longest first.
// The items left over when every block has had the same number are cut into parts along the
// positions, so that the last round is full too; the part that finishes last joins them. What a
// block takes depends on the counts of the step alone.
#pragma once

#include <climits>

#include "../kernels/attention.h"
#include "ptx.cuh"

namespace minfer_cuda::hopper {

inline constexpr int kRows = 128;     ///< query rows of an item
inline constexpr int kItems = 3;      ///< planned ahead, with those in work
inline constexpr int kMaxParts = 32;  ///< of an item
inline constexpr int kMinTiles = 4;   ///< of a part

/// One piece of work; rows 0 ends the list.
struct Item {
  int32_t seq, kv_head, kv_len;
  int32_t row0, rows;           ///< rows count token-major from the first token's first head
  int32_t first_token;          ///< of row 0 of the sequence, in the step
  int32_t key, tiles;           ///< first position and tiles of positions that any row sees
  int32_t all_first, all_last;  ///< positions that every row sees
  int32_t part, parts;          ///< which part of how many this is
  int32_t slot, counter;        ///< of the part's sums; of the parts that are done
};

/// An item in shared memory.
struct PlannedItem {
  Item item;
  int32_t pos[kRows];  ///< of the tokens that the rows touch
};

/// Most parts that the cut items of a launch have together.
__host__ __device__ constexpr int most_parts(int blocks) {
  return 2 * blocks;
}

/// Parts of each of `rest` items for which the blocks finish earliest; rest < blocks.
__host__ __device__ constexpr int parts_of_rest(int rest, int blocks) {
  int best = 1, best_rounds = 1;
  for (int parts = 2; parts <= kMaxParts && rest * parts <= most_parts(blocks); ++parts) {
    const int rounds = (rest * parts + blocks - 1) / blocks;
    // Joining has to be worth it: 5 %.
    if (rounds * best * 20 < best_rounds * parts * 19) best = parts, best_rounds = rounds;
  }
  return best;
}

#ifdef MINFER_SM90A

/// The step's items as a whole warp sees them.
class Planner {
 public:
  __device__ __forceinline__ explicit Planner(const AttentionCall& call)
      : call_(call), heads_(call.kv.n_head), group_(call.n_head / call.kv.n_head) {
    // All loads at once: the counts only decide what is made of them.
    const int own = min(lane(), call.seqs - 1);
    const int begin = call.q_start[own], end = call.q_start[own + 1], kv_len = call.kv_len[own];
    seqs_ = valid_of(call.valid_seqs, call.seqs);
    tokens_ = valid_of(call.valid_tokens, call.tokens);
    first_ = make_sequence(lane(), begin, end, kv_len);
    for (int first = 0; first < seqs_; first += 32) {
      tiles_ += __reduce_add_sync(~0u, sequence(first + lane()).tiles);
    }
    items_ = tiles_ * heads_;
    whole_ = items_ / static_cast<int>(gridDim.x) * static_cast<int>(gridDim.x);
  }

  /// Describes what this block does in a round, for tiles of `keys` positions. False when it has
  /// finished; an item of no tiles and part > 0 is to be passed over.
  __device__ __forceinline__ bool plan(int round, int keys, PlannedItem& to) {
    // Turns change direction, so that nobody always takes the longest of a round.
    const int blocks = gridDim.x, block = blockIdx.x;
    const int unit = round * blocks + (round & 1 ? blocks - 1 - block : block);
    Item item;
    item.part = 0;
    int index = unit, parts = 1;
    if (unit >= whole_) {
      if (parts_ == 0) choose_parts(keys, to.pos);
      if (unit >= whole_ + (items_ - whole_) * parts_) return false;
      parts = parts_;
      item.slot = unit - whole_;
      item.counter = item.slot / parts;
      item.part = item.slot % parts;
      index = whole_ + item.counter;
    }
    describe(index, keys, to.pos, item);
    take_part(keys, parts, item);
    if (lane() == 0) to.item = item;
    return true;
  }

 private:
  struct Sequence {
    int begin, rows, tiles, kv_len;
  };

  static __device__ __forceinline__ int lane() { return threadIdx.x & 31; }

  __device__ __forceinline__ Sequence make_sequence(int s, int begin, int end, int kv_len) const {
    const int rows = s < seqs_ ? max(min(end, tokens_) - begin, 0) * group_ : 0;
    return {begin, rows, (rows + kRows - 1) / kRows, kv_len};
  }
  __device__ __forceinline__ Sequence sequence(int s) const {
    if (s < 32) return first_;
    const int at = min(s, call_.seqs - 1);
    return make_sequence(s, call_.q_start[at], call_.q_start[at + 1], call_.kv_len[at]);
  }

  /// Cuts the last round's items unless they are much smaller than the first ones: then the blocks
  /// that are behind take none of them.
  __device__ __forceinline__ void choose_parts(int keys, int32_t* scratch) {
    parts_ = parts_of_rest(items_ - whole_, gridDim.x);
    if (parts_ == 1 || whole_ == 0 || whole_ == items_) return;
    Item largest, rest;
    describe(0, keys, scratch, largest);
    describe(whole_, keys, scratch, rest);
    if (rest.tiles * 4 < largest.tiles * 3) parts_ = 1;
  }

  __device__ __forceinline__ void describe(int index, int keys, int32_t* pos, Item& item) const {
    item.kv_head = index % heads_;
    find_rows(tiles_ - 1 - index / heads_, item);
    find_positions(keys, pos, item);
  }

  /// The rows of a tile, counted over all sequences; tiles never cross them.
  __device__ __forceinline__ void find_rows(int tile, Item& item) const {
    for (int first = 0; first < seqs_; first += 32) {
      const Sequence own = sequence(first + lane());
      int before = own.tiles;  // becomes the sum up to and with this lane's
#pragma unroll
      for (int o = 1; o < 32; o *= 2) {
        const int v = __shfl_up_sync(~0u, before, o);
        if (lane() >= o) before += v;
      }
      const uint32_t reach = __ballot_sync(~0u, before > tile);
      if (reach == 0) {
        tile -= __shfl_sync(~0u, before, 31);
        continue;
      }
      const int at = __ffs(reach) - 1;
      item.seq = first + at;
      item.first_token = __shfl_sync(~0u, own.begin, at);
      item.row0 = (tile - __shfl_sync(~0u, before - own.tiles, at)) * kRows;
      item.rows = min(kRows, __shfl_sync(~0u, own.rows, at) - item.row0);
      item.kv_len = __shfl_sync(~0u, own.kv_len, at);
      return;
    }
  }

  /// What the rows see, and the positions of their tokens.
  __device__ __forceinline__ void find_positions(int keys, int32_t* pos, Item& item) const {
    const int token0 = item.row0 / group_;
    const int n = (item.row0 + item.rows - 1) / group_ - token0 + 1;
    int first = INT_MAX, last = 0, all_first = 0, all_last = INT_MAX;
    for (int i = lane(); i < n; i += 32) {
      const int p = call_.pos[item.first_token + token0 + i];
      pos[i] = p;
      const SeenRange r = seen_range(call_, item.kv_len, p);
      if (r.last > r.first) first = min(first, r.first), last = max(last, r.last);
      all_first = max(all_first, r.first), all_last = min(all_last, r.last);
    }
    first = __reduce_min_sync(~0u, first);
    last = __reduce_max_sync(~0u, last);
    item.all_first = __reduce_max_sync(~0u, all_first);
    item.all_last = __reduce_min_sync(~0u, all_last);
    item.key = last > 0 ? first / keys * keys : 0;
    item.tiles = (last - item.key + keys - 1) / keys;
  }

  /// Narrows an item to its part of up to `parts`.
  __device__ __forceinline__ void take_part(int keys, int parts, Item& item) const {
    const int share = max(kMinTiles, (item.tiles + parts - 1) / parts);
    item.parts = max(1, (item.tiles + share - 1) / share);
    item.key += item.part * share * keys;
    item.tiles = max(0, min(share, item.tiles - item.part * share));
  }

  const AttentionCall& call_;
  int heads_, group_, seqs_, tokens_;
  Sequence first_;  ///< of this lane
  int tiles_ = 0, items_;
  int whole_;      ///< items that are not cut
  int parts_ = 0;  ///< of each of the others; 0: not chosen yet
};

#endif  // MINFER_SM90A

}  // namespace minfer_cuda::hopper
