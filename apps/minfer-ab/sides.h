// The two sides of a comparison: one model under two values of a gate, switched in one process.
//
// A gate of scope plan or run is switched in one engine. One of scope load needs an import for each
// value: two are held at once, or, where memory does not hold two or the user says so, the model is
// imported anew at every switch. Used by one thread.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>

#include "minfer/engine.h"
#include "minfer/plugin_host.h"
#include "options.h"
#include "workload.h"

namespace minfer::ab {

class Sides {
 public:
  /// Opens the host and the model, and imports it for side A (and B, where two are held).
  static Result<std::unique_ptr<Sides>> create(const Options& options);

  /// Makes side 0 (A) or 1 (B) the one that runs.
  Result<void> use(size_t side);
  Engine& engine() { return *slots_[current_slot_].engine; }
  app::WorkloadRunner& runner() { return *slots_[current_slot_].runner; }

  /// Runs another workload on the current side, its logits seen by `observer`.
  Result<void> run_check(const app::Workload& check, const app::StepObserver& observer,
                         std::vector<TokenId> forced, uint32_t generate);

  /// The compared gate as its owner declares it, and a side's value as the registry prints it.
  const GateSpec& gate() const { return gate_; }
  const std::string& value(size_t side) const { return values_[side]; }
  /// How sides are switched, in words.
  const char* how() const;

 private:
  enum class Switch { kPlans, kTwoImports, kReload };
  struct Slot {
    std::unique_ptr<Engine> engine;
    std::optional<app::WorkloadRunner> runner;  ///< goes before its engine
    void clear() {
      runner.reset();
      engine.reset();
    }
  };

  explicit Sides(const Options& options) : options_(options) {}
  Result<void> open();
  Result<void> set_gate(size_t side);
  Result<void> import(size_t slot);
  std::vector<TokenId> check_text() const;
  Result<void> make_runner(Slot& slot);

  const Options& options_;
  std::unique_ptr<PluginHost> host_;
  std::shared_ptr<const Model> model_;
  GateSpec gate_;
  std::array<std::string, 2> values_;
  Switch switch_ = Switch::kPlans;
  std::array<Slot, 2> slots_;
  size_t current_slot_ = 0;
  size_t current_side_ = 0;
};

/// What both sides are given to do before anything is timed: the metric, with a prompt before it
/// and a few tokens after it, so that there are outputs to compare.
app::Workload check_workload(const app::Workload& metric);

}  // namespace minfer::ab
