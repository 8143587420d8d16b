#include "engine/inputs.h"

#include <algorithm>

#include "engine/arena.h"

namespace minfer {
namespace {

/// Positions that a sequence holds before the step. The caller has checked the id.
uint32_t length_before(const KvCache& kv, SequenceId id) {
  return *kv.length(id);
}

void fill_tokens(std::span<const StepEntry> entries, uint32_t capacity, int32_t* out) {
  int32_t* const end = out + capacity;
  for (const StepEntry& e : entries) out = std::copy(e.tokens.begin(), e.tokens.end(), out);
  std::fill(out, end, 0);
}

void fill_positions(std::span<const StepEntry> entries, const KvCache& kv, uint32_t capacity,
                    int32_t* out) {
  int32_t* const end = out + capacity;
  for (const StepEntry& e : entries) {
    auto position = static_cast<int32_t>(length_before(kv, e.sequence));
    for (size_t i = 0; i < e.tokens.size(); ++i) *out++ = position++;
  }
  std::fill(out, end, 0);
}

void fill_q_start(std::span<const StepEntry> entries, uint32_t seqs, int32_t* out) {
  int32_t start = 0;
  for (uint32_t s = 0; s <= seqs; ++s) {
    out[s] = start;
    if (s < entries.size()) start += static_cast<int32_t>(entries[s].tokens.size());
  }
}

void fill_out_rows(std::span<const StepEntry> entries, uint32_t capacity, int32_t* out) {
  int32_t* const end = out + capacity;
  int32_t row = 0;
  for (const StepEntry& e : entries) {
    const auto n = static_cast<int32_t>(e.tokens.size());
    if (e.want_all_logits) {
      for (int32_t i = 0; i < n; ++i) *out++ = row + i;
    } else if (e.want_logits) {
      *out++ = row + n - 1;
    }
    row += n;
  }
  std::fill(out, end, 0);
}

void fill_token_seq(std::span<const StepEntry> entries, uint32_t capacity, int32_t* out) {
  int32_t* const end = out + capacity;
  for (size_t s = 0; s < entries.size(); ++s)
    out = std::fill_n(out, entries[s].tokens.size(), static_cast<int32_t>(s));
  std::fill(out, end, -1);
}

void fill_slots(std::span<const StepEntry> entries, const KvCache& kv, uint32_t group,
                uint32_t capacity, int64_t* out) {
  int64_t* const end = out + capacity;
  const uint32_t page_tokens = kv.page_tokens();
  for (const StepEntry& e : entries) {
    uint32_t position = length_before(kv, e.sequence);
    for (size_t i = 0; i < e.tokens.size(); ++i, ++position) {
      const int64_t page = kv.page(e.sequence, group, position / page_tokens);
      *out++ = page * page_tokens + position % page_tokens;
    }
  }
  std::fill(out, end, int64_t{-1});
}

void fill_kv_len(std::span<const StepEntry> entries, const KvCache& kv, uint32_t seqs,
                 int32_t* out) {
  for (uint32_t s = 0; s < seqs; ++s)
    out[s] = s < entries.size() ? static_cast<int32_t>(length_before(kv, entries[s].sequence) +
                                                       entries[s].tokens.size())
                                : 0;
}

void fill_block_table(std::span<const StepEntry> entries, const KvCache& kv, uint32_t group,
                      const Bucket& bucket, int32_t* out) {
  int32_t* const end = out + size_t{bucket.seqs} * bucket.max_pages;
  for (const StepEntry& e : entries) out = std::ranges::copy(kv.pages(e.sequence, group), out).out;
  std::fill(out, end, -1);
}

}  // namespace

const InputLayout::Entry* InputLayout::find(uint32_t tensor) const {
  const auto it = std::find_if(entries.begin(), entries.end(),
                               [&](const Entry& e) { return e.tensor == tensor; });
  return it == entries.end() ? nullptr : &*it;
}

InputLayout plan_inputs(const Graph& graph, uint64_t alignment) {
  InputLayout layout;
  for (uint32_t t = 0; t < graph.tensors.size(); ++t) {
    const GraphTensor& tensor = graph.tensors[t];
    if (tensor.kind != MINFER_TENSOR_INPUT || tensor.view_of != MINFER_NONE) continue;
    const uint64_t bytes = tensor_span_bytes(tensor);
    layout.entries.push_back({t, tensor.input, tensor.group, layout.bytes, bytes});
    layout.bytes = (layout.bytes + bytes + alignment - 1) / alignment * alignment;
  }
  return layout;
}

StepCounts count_step(std::span<const StepEntry> entries, const KvCache& kv) {
  StepCounts counts;
  counts.seqs = static_cast<uint32_t>(entries.size());
  for (const StepEntry& e : entries) {
    const auto n = static_cast<uint32_t>(e.tokens.size());
    counts.tokens += n;
    counts.outs += e.want_all_logits ? n : e.want_logits ? 1 : 0;
    counts.max_kv_len = std::max(counts.max_kv_len, length_before(kv, e.sequence) + n);
  }
  return counts;
}

void fill_inputs(const InputLayout& layout, const Bucket& bucket,
                 std::span<const StepEntry> entries, const KvCache& kv, uint8_t* block) {
  for (const InputLayout::Entry& input : layout.entries) {
    auto* i32 = reinterpret_cast<int32_t*>(block + input.offset);
    switch (input.kind) {
      case MINFER_INPUT_TOKENS:
        fill_tokens(entries, bucket.tokens, i32);
        break;
      case MINFER_INPUT_POS:
        fill_positions(entries, kv, bucket.tokens, i32);
        break;
      case MINFER_INPUT_Q_START:
        fill_q_start(entries, bucket.seqs, i32);
        break;
      case MINFER_INPUT_OUT_ROWS:
        fill_out_rows(entries, bucket.outs, i32);
        break;
      case MINFER_INPUT_SLOT:
        fill_slots(entries, kv, input.group, bucket.tokens,
                   reinterpret_cast<int64_t*>(block + input.offset));
        break;
      case MINFER_INPUT_KV_LEN:
        fill_kv_len(entries, kv, bucket.seqs, i32);
        break;
      case MINFER_INPUT_BLOCK_TABLE:
        fill_block_table(entries, kv, input.group, bucket, i32);
        break;
      case MINFER_INPUT_TOKEN_SEQ:
        fill_token_seq(entries, bucket.tokens, i32);
        break;
      default:
        break;
    }
  }
}

}  // namespace minfer
