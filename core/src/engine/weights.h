// The weights of placement units: which a device needs, for which uses, and their import.
//
// A weight is held once per device, by the first unit there that reads it, with the uses of all
// units of that device; a tied embedding on two devices is held by both. Collecting reads metadata
// only. WeightStore is used by one thread, but its release callback may come from any.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "minfer/model.h"
#include "minfer/plugin_host.h"

namespace minfer {

/// A handle for minfer_split.model and imports. Never used twice in a process, so that plugins can
/// key what they hold by it.
uint64_t next_model_handle();

/// The weights of one unit as the ABI takes them. `weights` points into the model's file.
struct UnitWeights {
  uint32_t unit = 0;
  std::vector<minfer_weight> weights;

  /// The ABI's view; valid while this object stays where it is.
  minfer_weight_unit table(uint64_t model) const;
};

/// One entry for each unit for which `on_device[unit]`, in order; entries may be empty.
std::vector<UnitWeights> collect_weights(const Model& model, const Graph& graph,
                                         const std::vector<bool>& on_device);

/// Owns the imported weights of one model and drops file pages that no device reads any more.
class WeightStore {
 public:
  explicit WeightStore(std::shared_ptr<const Model> model);
  ~WeightStore();
  WeightStore(const WeightStore&) = delete;
  WeightStore& operator=(const WeightStore&) = delete;

  /// Says how many bytes will be imported in all, for progress.
  void expect(uint64_t bytes) { total_bytes_ = bytes; }

  /// Imports units of one device; `on_progress` (may be empty) gets (done, total) after each.
  Result<void> import(Device& device, std::span<const UnitWeights> units, uint64_t model_handle,
                      const std::function<void(uint64_t, uint64_t)>& on_progress);

 private:
  static void released(void* self, uint64_t weight_id);

  std::shared_ptr<const Model> model_;
  /// Imports of each weight that may still read the file.
  std::vector<std::atomic<int32_t>> readers_;
  std::vector<WeightsHandle> handles_;
  uint64_t done_bytes_ = 0;
  uint64_t total_bytes_ = 0;
};

}  // namespace minfer
