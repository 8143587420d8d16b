#include "engine/weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "engine/splitter.h"
#include "minfer/log.h"

namespace minfer {
namespace {

uint32_t use_of(uint32_t op, size_t operand) {
  if (operand != 0) return MINFER_USE_PLAIN;
  if (op == MINFER_OP_MATMUL || op == MINFER_OP_MATMUL_BY_ID) return MINFER_USE_MATMUL;
  if (op == MINFER_OP_GET_ROWS) return MINFER_USE_GATHER;
  return MINFER_USE_PLAIN;
}

minfer_weight describe(const Model& model, uint64_t id, uint32_t uses) {
  const ModelWeight& weight = model.weights()[id];
  const GgufTensor& tensor = model.file().tensors()[weight.tensor];
  const GgufMapping& mapping = model.file().mappings()[tensor.file];
  minfer_weight out{};
  out.struct_size = sizeof out;
  out.type = weight.type;
  out.uses = uses;
  out.id = id;
  std::copy(weight.ne, weight.ne + 4, out.ne);
  out.mapping = mapping.data;
  out.mapping_bytes = mapping.bytes;
  out.offset = tensor.offset;
  out.bytes = tensor.bytes;
  out.name = weight.name.c_str();
  return out;
}

}  // namespace

uint64_t next_model_handle() {
  static std::atomic<uint64_t> next{1};
  return next++;
}

minfer_weight_unit UnitWeights::table(uint64_t model) const {
  minfer_weight_unit out{};
  out.struct_size = sizeof out;
  out.unit = unit;
  out.n_weights = static_cast<uint32_t>(weights.size());
  out.weight_stride = sizeof(minfer_weight);
  out.weights = weights.data();
  out.model = model;
  return out;
}

std::vector<UnitWeights> collect_weights(const Model& model, const Graph& graph,
                                         const std::vector<bool>& on_device) {
  struct Use {
    uint32_t unit;
    uint32_t uses;
  };
  std::map<uint64_t, Use> uses;  // by weight id
  for (const GraphNode& node : graph.nodes) {
    if (!on_device[node.unit]) continue;
    for (size_t i = 0; i < node.src.size(); ++i) {
      if (node.src[i] == MINFER_NONE) continue;
      const GraphTensor& t = graph.tensors[owner_of(graph, node.src[i])];
      if (t.kind != MINFER_TENSOR_WEIGHT) continue;
      uses.try_emplace(t.weight_id, Use{node.unit, 0}).first->second.uses |= use_of(node.op, i);
    }
  }
  std::vector<UnitWeights> out;
  std::vector<size_t> entry_of_unit(graph.units.size());
  for (uint32_t u = 0; u < graph.units.size(); ++u) {
    if (!on_device[u]) continue;
    entry_of_unit[u] = out.size();
    out.push_back({u, {}});
  }
  for (const auto& [id, use] : uses)
    out[entry_of_unit[use.unit]].weights.push_back(describe(model, id, use.uses));
  return out;
}

WeightStore::WeightStore(std::shared_ptr<const Model> model)
    : model_(std::move(model)), readers_(model_->weights().size()) {}

WeightStore::~WeightStore() {
  handles_.clear();
}  // may still call released()

void WeightStore::released(void* self, uint64_t weight_id) {
  auto& store = *static_cast<WeightStore*>(self);
  if (weight_id >= store.readers_.size()) {
    log(LogLevel::kError,
        fmt::format("a plugin released weight {}, which does not exist", weight_id));
    return;
  }
  const ModelWeight& weight = store.model_->weights()[weight_id];
  const int32_t before = store.readers_[weight_id].fetch_sub(1);
  if (before == 1)
    store.model_->file().release_pages(store.model_->file().tensors()[weight.tensor]);
  if (before < 1)
    log(LogLevel::kError, fmt::format("a plugin released weight '{}' twice", weight.name));
}

Result<void> WeightStore::import(Device& device, std::span<const UnitWeights> units,
                                 uint64_t model_handle,
                                 const std::function<void(uint64_t, uint64_t)>& on_progress) {
  for (const UnitWeights& unit : units) {
    if (unit.weights.empty()) continue;
    minfer_weight_unit table = unit.table(model_handle);
    table.release = &WeightStore::released;
    table.release_ctx = this;
    for (const minfer_weight& w : unit.weights) readers_[w.id].fetch_add(1);
    auto handle = device.weights_import(table);
    if (!handle) {
      for (const minfer_weight& w : unit.weights) readers_[w.id].fetch_sub(1);
      return tl::make_unexpected(std::move(handle).error());
    }
    handles_.push_back(std::move(*handle));
    for (const minfer_weight& w : unit.weights) done_bytes_ += w.bytes;
    if (on_progress) on_progress(done_bytes_, total_bytes_);
  }
  return {};
}

}  // namespace minfer
