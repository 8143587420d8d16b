#include "engine/placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "graph/op_names.h"
#include "minfer/log.h"

namespace minfer {
namespace {

std::string tensor_text(const minfer_tensor& t) {
  const TypeInfo* type = find_type(t.type);
  return fmt::format("tensor '{}' ({} [{}, {}, {}, {}])", t.name, type ? type->name : "?", t.ne[0],
                     t.ne[1], t.ne[2], t.ne[3]);
}

/// What a device's "no" means, in one line.
std::string verdict_text(const Split& split, const Verdict& verdict) {
  std::string text;
  if (verdict.node < split.nodes.size()) {
    const minfer_node& node = split.nodes[verdict.node];
    text += fmt::format("{} '{}'", op_name(node.op), node.name);
  }
  if (verdict.tensor < split.tensors.size()) {
    if (!text.empty()) text += ", ";
    text += tensor_text(split.tensors[verdict.tensor]);
  }
  if (!text.empty()) text += ": ";
  return text + (verdict.reason.empty() ? "refused without a reason" : verdict.reason);
}

}  // namespace

std::string bytes_text(uint64_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (bytes >= uint64_t{1} << 30) return fmt::format("{:.2f} GiB", value / (1 << 30));
  if (bytes >= uint64_t{1} << 20) return fmt::format("{:.1f} MiB", value / (1 << 20));
  if (bytes >= uint64_t{1} << 10) return fmt::format("{:.1f} KiB", value / (1 << 10));
  return fmt::format("{} bytes", bytes);
}

Placer::Placer(const PlacementRequest& request) : request_(request) {
  const size_t n_units = request.graph->units.size();
  nodes_of_unit_.resize(n_units);
  for (uint32_t n = 0; n < request.graph->nodes.size(); ++n)
    nodes_of_unit_[request.graph->nodes[n].unit].push_back(n);
  std::map<uint64_t, uint32_t> uses;
  for (uint32_t u = 0; u < n_units; ++u) {
    std::vector<bool> alone(n_units, false);
    alone[u] = true;
    weights_of_unit_.push_back(collect_weights(*request.model, *request.graph, alone).front());
    for (const minfer_weight& w : weights_of_unit_.back().weights) uses[w.id] |= w.uses;
  }
  for (UnitWeights& unit : weights_of_unit_)
    for (minfer_weight& w : unit.weights) w.uses = uses[w.id];
  verdicts_.assign(request.devices.size(), std::vector<std::optional<std::string>>(n_units));
  costs_.assign(request.devices.size(), std::vector<std::optional<Cost>>(n_units));
}

Result<std::string> Placer::ask(uint32_t unit, size_t device_index) {
  Device& device = *request_.devices[device_index];
  const Split split = make_split(*request_.graph, nodes_of_unit_[unit], request_.context);
  for (const minfer_node& node : split.nodes)
    if (!device.has_op(node.op, node.revision))
      return fmt::format("{} '{}': the plugin has no {} of revision {}", op_name(node.op),
                         node.name, op_name(node.op), node.revision);
  for (const minfer_kv_desc& kv : split.kv) {
    MINFER_ASSIGN(const auto sizes, device.kv_page_sizes(kv));
    if (std::find(sizes.begin(), sizes.end(), kv.page_tokens) == sizes.end())
      return fmt::format("layer {}: KV pages of {} tokens are not among its sizes", kv.layer,
                         kv.page_tokens);
  }
  MINFER_ASSIGN(const Verdict verdict, device.supports(split.table()));
  return verdict.supported ? std::string() : verdict_text(split, verdict);
}

Result<const std::string*> Placer::refusal_of(uint32_t unit, size_t device) {
  auto& verdict = verdicts_[device][unit];
  if (!verdict) {
    MINFER_ASSIGN(verdict, ask(unit, device));
  }
  return &*verdict;
}

Result<Placer::Cost> Placer::cost_of(uint32_t unit, size_t device_index) {
  auto& known = costs_[device_index][unit];
  if (known) return *known;
  Device& device = *request_.devices[device_index];
  const Graph& graph = *request_.graph;
  Cost cost;
  const UnitWeights& weights = weights_of_unit_[unit];
  if (!weights.weights.empty()) {
    MINFER_ASSIGN(cost.weights, device.weights_size(weights.table(request_.context.model)));
  }
  const Split split = make_split(graph, nodes_of_unit_[unit], request_.context);
  for (const minfer_kv_desc& kv : split.kv) {
    MINFER_ASSIGN(const uint64_t page, device.kv_page_bytes(kv));
    cost.kv += page * kv.n_pages;
  }
  known = cost;
  return cost;
}

bool Placer::wanted_on_first(const Unit& unit) const {
  // Without another device the limit has no meaning: a config with gpu_layers runs on a CPU too.
  if (request_.gpu_layers < 0 || request_.devices.size() == 1) return true;
  const auto wanted = static_cast<uint32_t>(request_.gpu_layers);
  const uint32_t n_layer = request_.model->hparams().n_layer;
  if (wanted >= n_layer) return true;
  switch (unit.kind) {
    case UnitKind::kEmbedding:
      return false;
    case UnitKind::kHead:
      return wanted > 0;
    default:
      return unit.layer >= n_layer - wanted;
  }
}

std::vector<size_t> Placer::order_for(uint32_t unit) const {
  std::vector<size_t> order(request_.devices.size());
  std::iota(order.begin(), order.end(), size_t{0});
  if (request_.graph->units[unit].kind == UnitKind::kEmbedding && unit + 1 < placed_.size()) {
    const size_t next = placed_[unit + 1].device;
    std::stable_partition(order.begin(), order.end(), [&](size_t d) { return d == next; });
  }
  return order;
}

Result<std::optional<Placer::Refusal>> Placer::try_device(uint32_t unit, size_t device) {
  const Unit& what = request_.graph->units[unit];
  if (device == 0 && !wanted_on_first(what))
    return Refusal{unit, fmt::format("gpu_layers is {}", request_.gpu_layers), false};
  MINFER_ASSIGN(const std::string* refusal, refusal_of(unit, device));
  if (!refusal->empty()) return Refusal{unit, *refusal, false};
  if (exhausted_[device]) return exhausted_[device];
  MINFER_ASSIGN(Cost cost, cost_of(unit, device));
  // Tied weights are held once per device.
  if (what.kind == UnitKind::kEmbedding && request_.model->hparams().tied_head &&
      placed_.back().device == device)
    cost.weights = 0;
  const uint64_t bytes = cost.weights + cost.kv;
  if (left_[device] && bytes > *left_[device]) {
    exhausted_[device] =
        Refusal{unit,
                fmt::format("memory: {} needs {} (weights {}, KV {}), {} are left", what.name(),
                            bytes_text(bytes), bytes_text(cost.weights), bytes_text(cost.kv),
                            bytes_text(*left_[device])),
                true};
    return exhausted_[device];
  }
  if (left_[device]) *left_[device] -= bytes;
  placed_[unit].device = device;
  placed_[unit].weight_bytes = cost.weights;
  placed_[unit].kv_bytes = cost.kv;
  return std::nullopt;
}

Result<std::vector<UnitPlacement>> Placer::place(std::span<const std::optional<uint64_t>> budget) {
  const auto& units = request_.graph->units;
  placed_.assign(units.size(), {});
  left_.assign(budget.begin(), budget.end());
  exhausted_.assign(budget.size(), std::nullopt);
  first_refusal_.assign(budget.size(), std::nullopt);
  for (auto u = static_cast<uint32_t>(units.size()); u-- > 0;) {
    placed_[u].unit = units[u];
    std::vector<Refusal> reasons;
    bool taken = false;
    for (const size_t d : order_for(u)) {
      MINFER_ASSIGN(auto refusal, try_device(u, d));
      taken = !refusal;
      if (taken) break;
      const std::string id = request_.devices[d]->info().id;
      placed_[u].passed_over +=
          fmt::format("{}{}: {}", placed_[u].passed_over.empty() ? "" : "; ", id, refusal->reason);
      if (!first_refusal_[d]) first_refusal_[d] = refusal;
      reasons.push_back(std::move(*refusal));
    }
    if (!taken) return no_taker(u, reasons);
  }
  return std::move(placed_);
}

tl::unexpected<Error> Placer::no_taker(uint32_t unit, std::span<const Refusal> reasons) const {
  const bool memory =
      std::any_of(reasons.begin(), reasons.end(), [](const Refusal& r) { return r.memory; });
  std::string text = fmt::format("no device takes {}: {}", request_.graph->units[unit].name(),
                                 placed_[unit].passed_over);
  return memory ? fail(ErrorCode::kOutOfMemory, std::move(text),
                       request_.model->file().path().string(),
                       "lower context, max_sequences or cache_type, or add a device")
                : fail(ErrorCode::kUnsupported, std::move(text),
                       request_.model->file().path().string(),
                       "add 'cpu' to the devices, or use another quantisation");
}

void Placer::log_refusals() const {
  for (size_t d = 0; d < first_refusal_.size(); ++d) {
    const auto& refusal = first_refusal_[d];
    if (!refusal) continue;
    log(LogLevel::kInfo, fmt::format("{} does not take {}: {}", request_.devices[d]->info().id,
                                     request_.graph->units[refusal->unit].name(), refusal->reason));
  }
}

}  // namespace minfer
