#include "engine/arena.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace minfer {
namespace {

uint64_t align_up(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

}  // namespace

ArenaPlacement place_requests(std::span<const ArenaRequest> requests, uint64_t alignment) {
  ArenaPlacement out;
  out.offsets.assign(requests.size(), 0);
  std::vector<size_t> order(requests.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return requests[a].bytes > requests[b].bytes; });

  std::vector<size_t> placed;  // by offset
  for (const size_t i : order) {
    const ArenaRequest& want = requests[i];
    uint64_t offset = 0;
    for (const size_t p : placed) {
      const ArenaRequest& other = requests[p];
      if (other.last < want.first || want.last < other.first) continue;
      if (out.offsets[p] >= offset + want.bytes) break;  // the gap before p is wide enough
      offset = std::max(offset, align_up(out.offsets[p] + other.bytes, alignment));
    }
    out.offsets[i] = offset;
    out.bytes = std::max(out.bytes, align_up(offset + want.bytes, alignment));
    placed.insert(
        std::upper_bound(placed.begin(), placed.end(), i,
                         [&](size_t a, size_t b) { return out.offsets[a] < out.offsets[b]; }),
        i);
  }
  return out;
}

const ArenaLayout::Entry* ArenaLayout::find(uint32_t tensor) const {
  const auto it = std::find_if(entries.begin(), entries.end(),
                               [&](const Entry& e) { return e.tensor == tensor; });
  return it == entries.end() ? nullptr : &*it;
}

uint64_t tensor_span_bytes(const GraphTensor& tensor) {
  uint64_t bytes = type_row_bytes(tensor.type, tensor.ne[0]);
  for (int i = 1; i < 4; ++i)
    bytes += static_cast<uint64_t>(tensor.ne[i] - 1) * static_cast<uint64_t>(tensor.nb[i]);
  return bytes;
}

std::vector<ArenaLayout> plan_arenas(const Graph& graph, const SplitPlan& plan,
                                     std::span<const uint64_t> alignment_of_device) {
  const auto end = static_cast<uint32_t>(plan.splits.size());
  const auto for_host = [&](uint32_t tensor) {
    for (const uint32_t out : {graph.logits, graph.arg_max})
      if (out != MINFER_NONE && owner_of(graph, out) == tensor) return true;
    return false;
  };

  std::vector<ArenaLayout> layouts(alignment_of_device.size());
  for (size_t d = 0; d < layouts.size(); ++d) {
    std::map<uint32_t, ArenaRequest> lives;  // by graph tensor
    for (uint32_t s = 0; s < end; ++s) {
      const Split& split = plan.splits[s];
      if (split.device != d) continue;
      for (size_t i = 0; i < split.tensors.size(); ++i) {
        const minfer_tensor& t = split.tensors[i];
        const uint32_t tensor = split.graph_tensor[i];
        const bool written = (t.flags & MINFER_FLAG_ESCAPES) != 0;
        const bool received = t.kind == MINFER_TENSOR_INPUT && t.input == MINFER_INPUT_HIDDEN;
        if (!written && !received) continue;
        const auto [it, fresh] =
            lives.try_emplace(tensor, ArenaRequest{tensor_span_bytes(graph.tensors[tensor]), s, s});
        it->second.last = written && for_host(tensor) ? end : std::max(it->second.last, s);
      }
    }
    std::vector<ArenaRequest> requests;
    for (const auto& [tensor, life] : lives) requests.push_back(life);
    const ArenaPlacement placement = place_requests(requests, alignment_of_device[d]);
    layouts[d].bytes = placement.bytes;
    size_t i = 0;
    for (const auto& [tensor, life] : lives)
      layouts[d].entries.push_back({tensor, placement.offsets[i++], life.bytes});
  }
  return layouts;
}

}  // namespace minfer
