// Engine set-up: from options and metadata to a placement, compiled plans and a memory plan, before
// any weight byte is read.
#include <fmt/format.h>

#include <algorithm>

#include "engine/device_choice.h"
#include "engine/engine_impl.h"
#include "engine/placement.h"
#include "minfer/log.h"

namespace minfer {
namespace {

/// Rounds of placing and compiling: each one takes the arena and workspace that the round before
/// measured off the budget for weights and KV.
constexpr int kPlacementRounds = 8;

std::string_view kv_type_name(uint32_t type) {
  const TypeInfo* info = find_type(type);
  return info ? info->name : "?";
}

}  // namespace

EngineImpl::EngineImpl(std::shared_ptr<const Model> model, PluginHost& host,
                       const EngineOptions& options)
    : host_(host), model_(std::move(model)), options_(options) {}

void EngineImpl::fill_options() {
  const HyperParams& hp = model_->hparams();
  if (options_.context == 0) options_.context = std::max(1u, hp.context_length);
  options_.max_sequences = std::max(1u, options_.max_sequences);
  const uint64_t positions = uint64_t{options_.context} * options_.max_sequences;
  options_.max_step_tokens = static_cast<uint32_t>(
      std::min<uint64_t>(std::max(options_.max_step_tokens, options_.max_sequences), positions));
  if (options_.max_step_outputs == 0) options_.max_step_outputs = options_.max_sequences;
  options_.max_step_outputs = std::min(options_.max_step_outputs, options_.max_step_tokens);
  if (hp.context_length > 0 && options_.context > hp.context_length)
    log(LogLevel::kWarn, fmt::format("the context of {} is longer than the {} that the model was "
                                     "trained for",
                                     options_.context, hp.context_length));
}

Result<void> EngineImpl::resolve_kv_type() {
  const Gate* gate = host_.gates().find("MINFER_CACHE_TYPE");
  const std::string text = gate ? gate->value_text() : "auto";
  if (text == "f32") options_.kv_type = MINFER_TYPE_F32;
  if (text == "f16") options_.kv_type = MINFER_TYPE_F16;
  if (text == "q8_0") options_.kv_type = MINFER_TYPE_Q8_0;
  const uint32_t type = options_.kv_type.value_or(MINFER_TYPE_F16);
  if (type != MINFER_TYPE_F32 && type != MINFER_TYPE_F16 && type != MINFER_TYPE_Q8_0)
    return fail(ErrorCode::kConfig,
                fmt::format("the KV cache cannot be of type {}", kv_type_name(type)), "cache_type",
                "use f32, f16 or q8_0");
  options_.kv_type = type;
  source_.kv_type = type;
  return {};
}

Result<void> EngineImpl::choose_shape(std::span<const std::shared_ptr<Device>> candidates) {
  // One token's graph tells the KV layers; their page size fixes every other capacity.
  GraphParams params{{1, 1, 1, 1}, source_.kv_type, 1, true};
  MINFER_ASSIGN(const Graph probe, model_->build(params));
  MINFER_ASSIGN(source_.page_tokens,
                choose_page_tokens(candidates, probe.kv, options_.kv_page_tokens));
  const KvCacheShape shape{source_.page_tokens, options_.context, options_.max_sequences,
                           options_.max_step_tokens, options_.kv_pages};
  for (const KvGroup& group : model_->kv_groups())
    source_.pages_of_group.push_back(pages_for_group(group, shape));
  kv_.emplace(model_->kv_groups(), shape);
  source_.buckets = make_buckets({options_.max_step_tokens, options_.max_sequences,
                                  options_.max_step_outputs, kv_->max_pages()});
  appends_.reserve(options_.max_sequences);
  return {};
}

Result<void> EngineImpl::settle_placement(const std::vector<std::shared_ptr<Device>>& candidates) {
  std::vector<minfer_memory> memory;
  std::vector<std::optional<uint64_t>> budget;
  for (const auto& device : candidates) {
    MINFER_ASSIGN(memory.emplace_back(), device->memory());
    const minfer_memory& m = memory.back();
    budget.emplace_back(m.free == 0 ? std::nullopt
                                    : std::optional(m.free - std::min(m.free, m.overhead)));
  }
  MINFER_ASSIGN(const Graph largest, model_->build(source_.params(source_.buckets.back())));
  Placer placer({model_.get(), &largest, candidates, source_.context(), options_.gpu_layers});
  for (int round = 0; round < kPlacementRounds; ++round) {
    MINFER_ASSIGN(auto placed, placer.place(budget));
    MINFER_TRY(adopt(candidates, std::move(placed), memory));
    bool fits = true;
    for (size_t d = 0; d < candidates.size(); ++d) {
      const auto used = std::find(source_.devices.begin(), source_.devices.end(), candidates[d]);
      if (used == source_.devices.end() || !budget[d]) continue;
      const auto& entry = memory_plan_.devices[used - source_.devices.begin()];
      if (check_fits(entry)) continue;
      fits = false;
      const uint64_t left =
          entry.available - std::min(entry.available, entry.total() - entry.weights - entry.kv);
      const uint64_t excess = entry.total() - entry.available;
      budget[d] = std::min(left, *budget[d] - std::min(*budget[d], excess));
    }
    if (!fits) continue;
    placer.log_refusals();
    return {};
  }
  for (const auto& entry : memory_plan_.devices) MINFER_TRY(check_fits(entry));
  return {};
}

Result<void> EngineImpl::adopt(const std::vector<std::shared_ptr<Device>>& candidates,
                               std::vector<UnitPlacement> placed,
                               std::span<const minfer_memory> candidate_memory) {
  std::vector<size_t> used(candidates.size(), SIZE_MAX);
  std::vector<minfer_memory> memory;
  source_.devices.clear();
  held_before_.clear();
  for (size_t d = 0; d < candidates.size(); ++d) {
    if (std::none_of(placed.begin(), placed.end(),
                     [&](const UnitPlacement& p) { return p.device == d; }))
      continue;
    used[d] = source_.devices.size();
    source_.devices.push_back(candidates[d]);
    memory.push_back(candidate_memory[d]);
    held_before_.push_back(candidate_memory[d].held);
  }
  source_.device_of_unit.clear();
  for (UnitPlacement& unit : placed) {
    unit.device = used[unit.device];
    source_.device_of_unit.push_back(unit.device);
  }
  placement_ = std::move(placed);

  plan_cache_.clear();
  MINFER_ASSIGN(plans_, plans_for_gates());
  device_weights_ = weights_of_devices(*model_, plans_->plans.back()->graph, source_.device_of_unit,
                                       source_.devices.size());
  MINFER_ASSIGN(memory_plan_, make_memory_plan(source_.devices, memory, *plans_, device_weights_,
                                               staging_sizes(*plans_).total()));
  return {};
}

StagingSizes EngineImpl::staging_sizes(const PlanSet& plans) const {
  const Graph& graph = plans.plans.back()->graph;
  const auto row = static_cast<uint64_t>(graph.tensors[graph.logits].nb[1]);
  return {.inputs = plans.input_bytes(),
          .crossings = plans.staging_bytes(),
          .logits = row * options_.max_step_outputs,
          .arg_max = sizeof(TokenId) * uint64_t{options_.max_step_outputs},
          .seqs = options_.max_sequences};
}

Result<void> EngineImpl::set_up() {
  fill_options();
  if (options_.context > kMaxContext)
    return fail(
        ErrorCode::kConfig,
        fmt::format("a context of {} positions; {} is the most", options_.context, kMaxContext),
        "context");
  MINFER_TRY(resolve_kv_type());
  source_.model = model_.get();
  source_.model_handle = next_model_handle();
  source_.trace = options_.trace;
  MINFER_ASSIGN(const auto candidates, choose_devices(host_, options_));
  for (const auto& device : candidates)
    device->set_gates(host_.gates().values(device->info().backend));
  MINFER_TRY(choose_shape(candidates));
  return settle_placement(candidates);
}

Result<std::unique_ptr<Engine>> Engine::plan(std::shared_ptr<const Model> model, PluginHost& host,
                                             const EngineOptions& options) {
  auto engine = std::make_unique<EngineImpl>(std::move(model), host, options);
  MINFER_TRY(engine->set_up());
  return engine;
}

Result<std::unique_ptr<Engine>> Engine::create(std::shared_ptr<const Model> model, PluginHost& host,
                                               const EngineOptions& options) {
  MINFER_ASSIGN(auto engine, plan(std::move(model), host, options));
  MINFER_TRY(engine->load());
  return engine;
}

}  // namespace minfer
