#include "sides.h"

#include <fmt/format.h>

#include <algorithm>

#include "minfer/tokenizer.h"
#include "place.h"

namespace minfer::ab {
namespace {

constexpr uint32_t kCheckPrompt = 64;
constexpr uint32_t kCheckTokens = 16;
/// Uncounted, before a fresh import is used: a backend may capture what has run a few times.
constexpr uint32_t kRunsAfterImport = 3;
constexpr const char* kCheckText =
    "The river rises in the hills above the town and turns south where the old mill stands. For "
    "two "
    "hundred years the wheel ground wheat for every farm in the valley; then the railway came, and "
    "flour from the coast was cheaper than flour from next door. The miller sold his stones to a "
    "museum, kept the house, and rented the upper floor to a painter of birds. Her pictures hang "
    "in "
    "the library now, beside a map that shows how far the water reached in the year of the flood. ";

}  // namespace

app::Workload check_workload(const app::Workload& metric) {
  app::Workload check = metric;
  if (metric.beside > 0) return check;
  check.prompt = std::max(metric.prompt, kCheckPrompt);
  check.generate = kCheckTokens;
  return check;
}

Result<std::unique_ptr<Sides>> Sides::create(const Options& options) {
  std::unique_ptr<Sides> sides(new Sides(options));
  MINFER_TRY(sides->open());
  return sides;
}

Result<void> Sides::set_gate(size_t side) {
  return host_->gates().set(gate_.name, options_.values[side], GateSource::kFlag);
}

Result<void> Sides::open() {
  std::vector<app::GateFlag> gates = options_.gates;
  gates.push_back(options_.gate);
  MINFER_ASSIGN(host_, app::open_host(options_.config, gates));
  const Gate* gate = host_->gates().find(options_.gate.name);
  if (gate == nullptr)
    return fail(ErrorCode::kUsage, "no backend here has this gate", options_.gate.name,
                "minfer-run --list-gates shows those that there are");
  gate_ = gate->spec;
  for (const size_t side : {1, 0}) {
    MINFER_TRY(set_gate(side));
    values_[side] = gate->value_text();
  }
  if (values_[0] == values_[1])
    return fail(ErrorCode::kUsage, "both sides have the same value", "--gate " + gate_.name);
  MINFER_ASSIGN(auto file, GgufFile::open(options_.config.model));
  MINFER_ASSIGN(model_, Model::create(std::move(file)));
  MINFER_TRY(import(0));
  if (gate_.scope != GateScope::kLoad) return {};
  switch_ = options_.reload ? Switch::kReload : Switch::kTwoImports;
  if (options_.reload) return {};
  MINFER_TRY(set_gate(1));
  auto second = import(1);
  if (!second && second.error().code == ErrorCode::kOutOfMemory) {
    slots_[1].clear();
    switch_ = Switch::kReload;
    return set_gate(0);
  }
  return second;
}

/// With the gates as they are now.
Result<void> Sides::import(size_t slot) {
  const app::Workload check = check_workload(options_.metric);
  EngineOptions options = app::engine_options(options_.config, options_.quiet);
  options.max_sequences = options_.metric.sequences();
  const uint32_t step = options.max_step_tokens;
  const uint64_t positions = std::max(check.positions(step), options_.metric.positions(step)) + 1;
  if (positions > app::kMaxWorkloadTokens)
    return fail(ErrorCode::kUsage, fmt::format("{} positions are too many", positions), "--metric");
  options.context = static_cast<uint32_t>(positions);
  MINFER_ASSIGN(slots_[slot].engine, Engine::create(model_, *host_, options));
  return make_runner(slots_[slot]);
}

Result<void> Sides::make_runner(Slot& slot) {
  MINFER_ASSIGN(auto runner, app::WorkloadRunner::create(*slot.engine, options_.metric));
  slot.runner.emplace(std::move(runner));
  return {};
}

/// Tokens of plain prose; empty where the model has no vocabulary. On random tokens a model's
/// logits are so near each other that rounding alone moves them far.
std::vector<TokenId> Sides::check_text() const {
  const auto tokenizer = Tokenizer::create(model_->file());
  if (!tokenizer) return {};
  return (*tokenizer)->encode(kCheckText, false, true);
}

/// There are sequences for one workload only.
Result<void> Sides::run_check(const app::Workload& check, const app::StepObserver& observer,
                              std::vector<TokenId> forced, uint32_t generate) {
  Slot& slot = slots_[current_slot_];
  slot.runner.reset();
  {
    MINFER_ASSIGN(auto runner, app::WorkloadRunner::create(*slot.engine, check, check_text()));
    MINFER_TRY(runner.run_observed(observer, std::move(forced), generate));
  }
  return make_runner(slot);
}

Result<void> Sides::use(size_t side) {
  if (side == current_side_) return {};
  MINFER_TRY(set_gate(side));
  switch (switch_) {
    case Switch::kPlans:
      MINFER_TRY(engine().refresh_gates());
      break;
    case Switch::kTwoImports:
      current_slot_ = side;
      break;
    case Switch::kReload:
      slots_[0].clear();
      MINFER_TRY(import(0));
      for (uint32_t i = 0; i < kRunsAfterImport; ++i) MINFER_TRY(runner().run());
      break;
  }
  current_side_ = side;
  return {};
}

const char* Sides::how() const {
  switch (switch_) {
    case Switch::kTwoImports:
      return "two imports are held, one for each value";
    case Switch::kReload:
      return "the model is imported anew at every switch";
    case Switch::kPlans:
      break;
  }
  return "one import, its plans are switched";
}

}  // namespace minfer::ab
