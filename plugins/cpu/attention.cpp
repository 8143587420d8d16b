// The streaming softmax. For each tile of keys: scores, soft cap, mask by range, rescale what has
// been gathered, add the tile's weighted values. Formula and conventions: docs/operators.md.
#include "attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace minfer_cpu {
namespace {

constexpr int64_t kQueryRows = 32;    // query rows of a block, group and tokens together
constexpr int64_t kTile = 128;        // keys scored at a time
constexpr int64_t kLeastChunk = 256;  // keys that are worth a task of their own
constexpr int64_t kChunkTasksPerThread = 4;
constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

int64_t floats_aligned(int64_t n) {
  return (n + 15) / 16 * 16;
}

}  // namespace

struct AttentionStep::Block {
  int64_t sequence, head, token0, token1, rows;
  int64_t kv_len;
  int64_t begin, end;  // keys that this task covers, from a multiple of kKvLanes
  int64_t
      first_seen;  // the first key that a token sees; those before it may never have been stored
  int64_t unit, chunk;
};

struct AttentionStep::Softmax {
  float* q;       // [rows][dim_k]
  float* scores;  // [rows][kTile]
  float* acc;     // [rows][dim_v]
  float* max;     // [rows]
  float* sum;     // [rows]
};

AttentionStep::AttentionStep(const OpContext& ctx, const Node& node, uint32_t index,
                             const KvLayout& layout, unsigned threads)
    : ctx_(ctx),
      index_(index),
      q_(node.src[0]),
      pos_(node.src[1]),
      q_start_(node.src[2]),
      kv_len_(node.src[3]),
      table_(node.src[4]),
      sinks_(node.source(5)),
      out_(node.dst),
      params_(node.params.attention),
      layout_(layout),
      ops_(&ctx.vec->kv[layout.type]),
      group_(params_.n_head / layout.heads),
      tokens_per_block_(std::max<int64_t>(1, kQueryRows / group_)),
      first_block_(static_cast<size_t>(ctx.tensor(kv_len_).ne[0]) + 1),
      max_units_(kChunkTasksPerThread * threads) {
  const Tensor& out = ctx.tensor(out_);
  const bool flat = out.ne[0] != layout.dim_v || out.ne[1] != params_.n_head;
  head_stride_ = flat ? layout.dim_v * static_cast<int64_t>(sizeof(float)) : out.nb[1];
  token_stride_ = flat ? out.nb[1] : out.nb[2];
  left_ = std::make_unique<std::atomic<int32_t>[]>(static_cast<size_t>(max_units_));
}

// ---- memory

AttentionStep::Softmax AttentionStep::state_in(uint8_t* scratch) const {
  const int64_t rows = tokens_per_block_ * group_;
  Softmax state;
  state.q = reinterpret_cast<float*>(scratch);
  state.scores = state.q + floats_aligned(rows * layout_.dim_k);
  state.acc = state.scores + rows * kTile;
  state.max = state.acc + floats_aligned(rows * layout_.dim_v);
  state.sum = state.max + floats_aligned(rows);
  return state;
}

uint64_t AttentionStep::scratch_bytes() const {
  const int64_t rows = tokens_per_block_ * group_;
  return static_cast<uint64_t>(floats_aligned(rows * layout_.dim_k) + rows * kTile +
                               floats_aligned(rows * layout_.dim_v) + 2 * floats_aligned(rows)) *
         sizeof(float);
}

// A part holds the state of one chunk of a unit: max, sum, then weighted values.
uint64_t AttentionStep::parts_bytes() const {
  const int64_t rows = tokens_per_block_ * group_;
  return static_cast<uint64_t>(2 * max_units_ * floats_aligned(rows * (layout_.dim_v + 2))) *
         sizeof(float);
}

float* AttentionStep::part(const Run& run, int64_t unit, int64_t chunk) const {
  const int64_t rows = tokens_per_block_ * group_;
  return reinterpret_cast<float*>(run.workspace + parts_offset_) +
         (unit * chunks_ + chunk) * floats_aligned(rows * (layout_.dim_v + 2));
}

const int32_t* AttentionStep::ints(const Run& run, uint32_t tensor, int64_t index) const {
  return reinterpret_cast<const int32_t*>(run.data[tensor] + index * ctx_.tensor(tensor).nb[0]);
}

// ---- cutting the work

int64_t AttentionStep::prepare(const Run& run) {
  const int64_t n_seqs = run.count(Dyn::kSeqs, 0), n_tokens = run.count(Dyn::kTokens, 0);
  int64_t blocks = 0, longest = 0;
  bytes_ = 0;
  for (int64_t s = 0; s < n_seqs; ++s) {
    first_block_[static_cast<size_t>(s)] = blocks;
    const int64_t tokens = *ints(run, q_start_, s + 1) - *ints(run, q_start_, s);
    blocks += (tokens + tokens_per_block_ - 1) / tokens_per_block_;
    const int64_t kv_len = *ints(run, kv_len_, s);
    longest =
        std::max(longest, params_.window == 0 ? kv_len : std::min<int64_t>(kv_len, params_.window));
    bytes_ += static_cast<uint64_t>(kv_len * layout_.page_bytes / layout_.page_tokens);
  }
  first_block_[static_cast<size_t>(n_seqs)] = blocks;
  // Tokens of no sequence see nothing.
  const int64_t first = n_seqs > 0 ? *ints(run, q_start_, 0) : 0;
  const int64_t last = n_seqs > 0 ? *ints(run, q_start_, n_seqs) : 0;
  for (int64_t t = 0; t < n_tokens; ++t) {
    if (t >= first && t < last) continue;
    for (int64_t h = 0; h < params_.n_head; ++h) {
      std::memset(run.data[out_] + t * token_stride_ + h * head_stride_, 0,
                  static_cast<size_t>(layout_.dim_v) * sizeof(float));
    }
  }
  const int64_t units = blocks * layout_.heads;
  chunks_ = 1;
  if (units > 0 && units < 2 * static_cast<int64_t>(run.threads) && run.threads > 1) {
    const int64_t wanted = (max_units_ + units - 1) / units;
    chunks_ =
        std::clamp<int64_t>(std::min(wanted, longest / kLeastChunk), 1, 2 * max_units_ / units);
    for (int64_t u = 0; u < units; ++u) {
      left_[static_cast<size_t>(u)].store(static_cast<int32_t>(chunks_));
    }
  }
  return units * chunks_;
}

// Keys that a token sees are [lower, upper).
int64_t AttentionStep::lower(const Run& run, int64_t token) const {
  if (params_.window == 0) return 0;
  return std::max<int64_t>(0, int64_t{*ints(run, pos_, token)} - params_.window + 1);
}

int64_t AttentionStep::upper(const Run& run, int64_t token, int64_t kv_len) const {
  if (params_.causal == 0) return kv_len;
  return std::min<int64_t>(kv_len, int64_t{*ints(run, pos_, token)} + 1);
}

AttentionStep::Block AttentionStep::block_of(const Run& run, int64_t index) const {
  Block block;
  block.chunk = index % chunks_;
  block.unit = index / chunks_;
  block.head = block.unit % layout_.heads;
  const int64_t n_seqs = run.count(Dyn::kSeqs, 0);
  // The last blocks see the most keys: they go first, so that no long task is left for the end.
  const int64_t number = first_block_[static_cast<size_t>(n_seqs)] - 1 - block.unit / layout_.heads;
  const auto after = std::upper_bound(first_block_.begin(), first_block_.begin() + n_seqs, number);
  block.sequence = after - first_block_.begin() - 1;
  const int64_t within = number - first_block_[static_cast<size_t>(block.sequence)];
  block.token0 = *ints(run, q_start_, block.sequence) + within * tokens_per_block_;
  block.token1 =
      std::min<int64_t>(*ints(run, q_start_, block.sequence + 1), block.token0 + tokens_per_block_);
  block.rows = (block.token1 - block.token0) * group_;
  block.kv_len = *ints(run, kv_len_, block.sequence);
  block.begin = std::numeric_limits<int64_t>::max();
  block.end = 0;
  for (int64_t t = block.token0; t < block.token1; ++t) {
    block.begin = std::min(block.begin, lower(run, t));
    block.end = std::max(block.end, upper(run, t, block.kv_len));
  }
  block.first_seen = block.begin;
  block.begin = block.begin / kKvLanes * kKvLanes;
  if (chunks_ > 1) {
    const int64_t keys = std::max<int64_t>(0, block.end - block.begin);
    const int64_t step = ((keys + chunks_ - 1) / chunks_ + kKvLanes - 1) / kKvLanes * kKvLanes;
    block.begin += step * block.chunk;
    block.end = std::min(block.end, block.begin + step);
  }
  return block;
}

// ---- one task

// Rows of a block are ordered by token, then by head of the group.
void AttentionStep::load_queries(const Run& run, const Block& block, float* q) const {
  const Tensor& tensor = ctx_.tensor(q_);
  for (int64_t t = block.token0; t < block.token1; ++t) {
    for (int64_t g = 0; g < group_; ++g, q += layout_.dim_k) {
      const float* from = reinterpret_cast<const float*>(run.data[q_] + t * tensor.nb[2] +
                                                         (block.head * group_ + g) * tensor.nb[1]);
      ctx_.vec->scale(from, layout_.dim_k, params_.scale, 0.0f, q);
    }
  }
}

// Turns the scores [from, to) of a row into weights, zero elsewhere in the tile, and rescales.
void AttentionStep::weigh_row(float* scores, int64_t width, int64_t from, int64_t to, int64_t row,
                              Softmax& state) const {
  if (from >= to) {
    std::fill(scores, scores + width, 0.0f);
    return;
  }
  const VecOps& vec = *ctx_.vec;
  if (params_.soft_cap != 0.0f) {
    vec.soft_cap(scores + from, to - from, params_.soft_cap, scores + from);
  }
  const float largest = std::max(state.max[row], vec.max(scores + from, to - from));
  if (largest == kMinusInfinity) {  // nothing but -infinity so far
    std::fill(scores, scores + width, 0.0f);
    return;
  }
  if (largest > state.max[row]) {
    const float factor = std::exp(state.max[row] - largest);
    state.sum[row] *= factor;
    float* acc = state.acc + row * layout_.dim_v;
    vec.scale(acc, layout_.dim_v, factor, 0.0f, acc);
    state.max[row] = largest;
  }
  state.sum[row] += vec.exp_sum(scores + from, to - from, largest, scores + from);
  std::fill(scores, scores + from, 0.0f);
  std::fill(scores + to, scores + width, 0.0f);
}

void AttentionStep::add_tile(const Run& run, const Block& block, int64_t begin, int64_t end,
                             const float* q, Softmax& state) const {
  const Tensor& table = ctx_.tensor(table_);
  const auto page_of = [&](int64_t key) {
    return int64_t{*reinterpret_cast<const int32_t*>(
        run.data[table_] + block.sequence * table.nb[1] + key / layout_.page_tokens * table.nb[0])};
  };
  const uint8_t* region = run.kv[params_.kv];
  // Pages are multiples of kKvLanes, and so is begin: pieces within one page.
  const auto piece_end = [&](int64_t key) {
    return std::min(end, (key / layout_.page_tokens + 1) * layout_.page_tokens);
  };
  for (int64_t key = begin; key < end; key = piece_end(key)) {
    const int64_t page = page_of(key);
    if (page < 0) continue;
    ops_->scores(q, layout_.dim_k, block.rows,
                 region + layout_.k_offset(page, block.head, key % layout_.page_tokens),
                 (piece_end(key) - key + kKvLanes - 1) / kKvLanes, layout_.dim_k,
                 state.scores + (key - begin), kTile);
  }
  for (int64_t row = 0; row < block.rows; ++row) {
    const int64_t token = block.token0 + row / group_;
    const int64_t from = std::clamp<int64_t>(lower(run, token) - begin, 0, end - begin);
    const int64_t to = std::clamp<int64_t>(upper(run, token, block.kv_len) - begin, 0, end - begin);
    weigh_row(state.scores + row * kTile, end - begin, from, to, row, state);
  }
  for (int64_t key = std::max(begin, block.first_seen); key < end; key = piece_end(key)) {
    const int64_t page = page_of(key);
    if (page < 0) continue;
    ops_->values(state.scores + (key - begin), kTile, block.rows,
                 region + layout_.v_offset(page, block.head, key % layout_.page_tokens),
                 piece_end(key) - key, layout_.dim_v, state.acc, layout_.dim_v);
  }
}

void AttentionStep::write_out(const Run& run, const Block& block, const Softmax& state) const {
  for (int64_t row = 0; row < block.rows; ++row) {
    const int64_t token = block.token0 + row / group_;
    const int64_t head = block.head * group_ + row % group_;
    float* out =
        reinterpret_cast<float*>(run.data[out_] + token * token_stride_ + head * head_stride_);
    const float* acc = state.acc + row * layout_.dim_v;
    if (state.max[row] == kMinusInfinity) {
      std::fill(out, out + layout_.dim_v, 0.0f);
      continue;
    }
    float factor = 1.0f;
    float sum = state.sum[row];
    if (sinks_ != MINFER_NONE) {
      // The sink may be the largest of all: compare before taking exponentials.
      const float sink = run.floats(sinks_)[head];
      const float largest = std::max(sink, state.max[row]);
      factor = std::exp(state.max[row] - largest);
      sum = sum * factor + std::exp(sink - largest);
    }
    ctx_.vec->scale(acc, layout_.dim_v, factor / sum, 0.0f, out);
  }
}

void AttentionStep::write_part(const Run& run, const Block& block, const Softmax& state) const {
  float* to = part(run, block.unit, block.chunk);
  to = std::copy(state.max, state.max + block.rows, to);
  to = std::copy(state.sum, state.sum + block.rows, to);
  std::copy(state.acc, state.acc + block.rows * layout_.dim_v, to);
}

// By the task that ends a unit's last chunk.
void AttentionStep::merge(const Run& run, const Block& block, unsigned thread) const {
  Softmax state = state_in(run.scratch(thread));
  const int64_t dim = layout_.dim_v;
  for (int64_t row = 0; row < block.rows; ++row) {
    float largest = kMinusInfinity, sum = 0.0f;
    for (int64_t c = 0; c < chunks_; ++c) {
      largest = std::max(largest, part(run, block.unit, c)[row]);
    }
    float* acc = state.acc + row * dim;
    std::fill(acc, acc + dim, 0.0f);
    for (int64_t c = 0; c < chunks_ && largest != kMinusInfinity; ++c) {
      const float* from = part(run, block.unit, c);
      const float factor = std::exp(from[row] - largest);
      if (factor == 0.0f) continue;
      sum += from[block.rows + row] * factor;
      ctx_.vec->axpy(from + 2 * block.rows + row * dim, dim, factor, acc);
    }
    state.max[row] = largest;
    state.sum[row] = sum;
  }
  write_out(run, block, state);
}

void AttentionStep::task(const Run& run, int64_t index, unsigned thread) {
  const Block block = block_of(run, index);
  Softmax state = state_in(run.scratch(thread));
  std::fill(state.max, state.max + block.rows, kMinusInfinity);
  std::fill(state.sum, state.sum + block.rows, 0.0f);
  std::fill(state.acc, state.acc + block.rows * layout_.dim_v, 0.0f);
  load_queries(run, block, state.q);
  for (int64_t begin = block.begin; begin < block.end; begin += kTile) {
    add_tile(run, block, begin, std::min(block.end, begin + kTile), state.q, state);
  }
  if (chunks_ == 1) {
    write_out(run, block, state);
    return;
  }
  write_part(run, block, state);
  if (left_[static_cast<size_t>(block.unit)].fetch_sub(1) == 1) merge(run, block, thread);
}

}  // namespace minfer_cpu
