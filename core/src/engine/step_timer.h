// Sums what plans report about timed runs by operator, kernel and device. Not thread-safe;
// allocates, so timing is no part of a normal step.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "engine/step_plan.h"
#include "minfer/engine.h"

namespace minfer {

/// Where the times of single nodes go besides the sums.
struct NodeTrace {
  Trace* trace = nullptr;
  std::span<const Trace::Clock::time_point> begin;  ///< of each split's run
};

class StepTimer {
 public:
  /// Adds the last run of every split of the plan, which must be complete.
  /// Backends report how long each node took, not when: in a trace they follow one another.
  Result<void> add(const StepPlan& plan, std::span<const std::shared_ptr<Device>> devices,
                   const NodeTrace& trace);
  /// Slowest first.
  std::vector<OpTiming> timings() const;
  void clear() { sums_.clear(); }

 private:
  std::map<std::tuple<std::string, std::string, std::string>, OpTiming> sums_;
};

}  // namespace minfer
