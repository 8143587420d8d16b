// The splitter: cuts a graph into runs of nodes on one device, as tables that a plugin can read.
//
// A split names only the tensors it touches. What another split or the host reads carries
// MINFER_FLAG_ESCAPES; what comes from another split becomes an input of kind MINFER_INPUT_HIDDEN.
// Pure functions on immutable data; a Split points into the Graph it was cut from, which must
// outlive it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "minfer/graph.h"

namespace minfer {

/// Facts about the engine that graphs do not hold but splits state.
struct SplitContext {
  std::span<const uint32_t> pages_of_group;  ///< pages in the pool of each KV group
  uint64_t model = 0;                        ///< handle that weights are imported under
};

/// Nodes of one device with the tables that cross the ABI. Movable, not copyable: the tables point
/// into each other.
class Split {
 public:
  Split() = default;
  Split(Split&&) = default;
  Split& operator=(Split&&) = default;
  Split(const Split&) = delete;
  Split& operator=(const Split&) = delete;

  size_t device = 0;
  std::vector<uint32_t> graph_nodes;   ///< index in the graph of each node
  std::vector<uint32_t> graph_tensor;  ///< index in the graph of each tensor
  std::vector<uint32_t> graph_kv;      ///< index in the graph of each KV layer
  std::vector<minfer_tensor> tensors;
  std::vector<minfer_node> nodes;
  std::vector<minfer_kv_desc> kv;
  minfer_capacity capacity{};
  uint64_t model = 0;

  /// The ABI's view of this split; valid while the split stays where it is.
  minfer_split table() const;
  /// Local index of a graph tensor, or MINFER_NONE.
  uint32_t local(uint32_t graph_tensor_index) const;

 private:
  friend Split make_split(const Graph&, std::span<const uint32_t>, const SplitContext&);
  std::vector<uint32_t> sources_;
  std::vector<OpParams> params_;
};

/// A tensor that another device needs, copied once per device: after `from` has run, before `to`
/// runs (the first split there that reads it).
struct Crossing {
  uint32_t tensor = 0;  ///< index in the graph; never a view
  uint32_t from = 0;    ///< index into SplitPlan::splits
  uint32_t to = 0;
  bool operator==(const Crossing&) const = default;
};

struct SplitPlan {
  std::vector<Split> splits;
  std::vector<Crossing> crossings;  ///< in order of `from`, then `to`
};

/// The tensor that owns the memory of `tensor`: itself, or what it is a view of.
inline uint32_t owner_of(const Graph& graph, uint32_t tensor) {
  const uint32_t base = graph.tensors[tensor].view_of;
  return base == MINFER_NONE ? tensor : base;
}

/// A split of the given nodes (ascending graph indices), everything else being outside it.
Split make_split(const Graph& graph, std::span<const uint32_t> nodes, const SplitContext& context);

/// Cuts the graph into maximal runs of nodes whose units are on one device.
/// `device_of_unit[u]` is the device of graph.units[u].
SplitPlan split_graph(const Graph& graph, std::span<const size_t> device_of_unit,
                      const SplitContext& context);

}  // namespace minfer
