// The engine behind minfer/engine.h: owns what a placed model needs and hands steps to the runner.
//
// setup.cpp decides (placement, plans, memory plan), load.cpp allocates and imports, engine.cpp
// steps, greedy.cpp decodes ahead, report.cpp explains. Members are ordered so that destruction
// runs plans before memory, memory before weights, and all of it before devices.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "engine/kv_cache.h"
#include "engine/memory_plan.h"
#include "engine/plan_set.h"
#include "engine/step_runner.h"
#include "engine/weights.h"
#include "minfer/engine.h"

namespace minfer {

class EngineImpl final : public Engine {
 public:
  EngineImpl(std::shared_ptr<const Model> model, PluginHost& host, const EngineOptions& options);
  /// Decides everything that plan() promises.
  Result<void> set_up();

  Result<void> load() override;
  const Model& model() const override { return *model_; }
  const EngineOptions& options() const override { return options_; }
  std::span<const std::shared_ptr<Device>> devices() const override { return source_.devices; }
  std::span<const UnitPlacement> placement() const override { return placement_; }
  const MemoryPlan& memory_plan() const override { return memory_plan_; }
  Result<MemoryPlan> measured_memory() override;
  Result<std::vector<NodePlacement>> explain(uint32_t tokens) override;
  Result<std::string> dot(uint32_t tokens) override;
  Result<void> refresh_gates() override;

  Result<SequenceId> sequence_new() override { return kv_->create(); }
  Result<SequenceId> sequence_fork(SequenceId from) override { return kv_->fork(from); }
  Result<void> sequence_truncate(SequenceId id, uint32_t length) override {
    return kv_->truncate(id, length);
  }
  Result<void> sequence_free(SequenceId id) override { return kv_->free(id); }
  Result<uint32_t> sequence_length(SequenceId id) const override { return kv_->length(id); }
  uint32_t free_pages(uint32_t group) const override {
    return group < kv_->group_count() ? kv_->free_pages(group) : 0;
  }

  Result<StepResult> step(std::span<const StepEntry> entries, const StepOptions& options) override;
  Result<StepResult> prefill(SequenceId id, std::span<const TokenId> tokens,
                             const StepOptions& options) override;
  Result<std::vector<TokenId>> decode_greedy(SequenceId id, TokenId first, uint32_t n,
                                             std::span<const TokenId> stop,
                                             const std::function<bool(TokenId)>& on_token) override;

  void set_timing(bool on) override;
  std::vector<OpTiming> op_timings() const override;
  void cancel() override;

 private:
  // setup.cpp
  void fill_options();
  Result<void> resolve_kv_type();
  Result<void> choose_shape(std::span<const std::shared_ptr<Device>> candidates);
  Result<void> settle_placement(const std::vector<std::shared_ptr<Device>>& candidates);
  Result<void> adopt(const std::vector<std::shared_ptr<Device>>& candidates,
                     std::vector<UnitPlacement> placed,
                     std::span<const minfer_memory> candidate_memory);
  StagingSizes staging_sizes(const PlanSet& plans) const;

  // load.cpp
  Result<void> allocate_memory();
  Result<void> allocate_arena(size_t device, const PlanSet& plans);
  Result<void> import_weights();
  Result<void> create_runner();
  Result<PlanSet*> plans_for_gates();
  std::vector<int64_t> plan_gates() const;

  /// Marks that work is under way which cancel() means.
  class Stepping {
   public:
    explicit Stepping(EngineImpl& engine) : engine_(engine) {
      engine.runner_->clear_cancel();
      engine.stepping_ = true;
    }
    ~Stepping() { engine_.stepping_ = false; }
    Stepping(const Stepping&) = delete;
    Stepping& operator=(const Stepping&) = delete;

   private:
    EngineImpl& engine_;
  };

  // engine.cpp
  Result<StepResult> step_once(std::span<const StepEntry> entries, bool read_logits);
  Result<void> check_loaded() const;
  Result<StepCounts> check_batch(std::span<const StepEntry> entries) const;
  Result<uint32_t> enqueue(std::span<const StepEntry> entries, bool read_logits, StepPlan* plan);
  Result<StepPlan*> pick_plan(const StepCounts& counts) const;
  StepResult result_of(uint32_t slot) const;
  void undo_prefill(SequenceId id, uint32_t length);

  // greedy.cpp
  struct GreedyRun;
  Result<void> greedy_ahead(GreedyRun& run);
  Result<void> greedy_one_by_one(GreedyRun& run);

  PluginHost& host_;
  std::shared_ptr<const Model> model_;
  EngineOptions options_;
  PlanSource source_;
  std::vector<UnitPlacement> placement_;
  MemoryPlan memory_plan_;
  std::vector<uint64_t> held_before_;  ///< per device, before the engine took anything
  std::vector<std::vector<UnitWeights>> device_weights_;
  std::vector<KvCache::Append> appends_;
  std::optional<KvCache> kv_;
  std::unique_ptr<WeightStore> weights_;
  std::vector<DeviceMemory> memory_;
  PlanCache plan_cache_;
  PlanSet* plans_ = nullptr;  ///< of the current gates
  std::unique_ptr<StepRunner> runner_;
  std::atomic<bool> stepping_{false};
};

}  // namespace minfer
