// Placement: which device owns each unit, decided from metadata before any weight byte is read.
//
// Units are handed out from the head down to the embedding; each goes to the first device, in the
// user's order, that supports it and has memory left. Once memory has refused a unit, the device
// takes nothing earlier either, so that a partly offloaded model crosses between devices once. The
// embedding goes with layer 0 where it can, which saves a crossing. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/splitter.h"
#include "engine/weights.h"
#include "minfer/engine.h"

namespace minfer {

/// What placement decides from. Everything is borrowed.
struct PlacementRequest {
  const Model* model = nullptr;
  const Graph* graph = nullptr;  ///< of the largest bucket
  std::span<const std::shared_ptr<Device>> devices;
  SplitContext context;
  int32_t gpu_layers = -1;  ///< layers for the first device; -1: as many as fit
};

class Placer {
 public:
  explicit Placer(const PlacementRequest& request);

  /// Places every unit within `budget[d]` bytes of weights and KV per device (nothing: no limit).
  /// kUnsupported or kOutOfMemory with each device's reason when a unit has no taker.
  Result<std::vector<UnitPlacement>> place(std::span<const std::optional<uint64_t>> budget);

  /// Logs, for each device that was asked and does not hold everything, the first refusal.
  void log_refusals() const;

 private:
  struct Cost {
    uint64_t weights = 0;
    uint64_t kv = 0;
  };
  struct Refusal {
    uint32_t unit = 0;
    std::string reason;
    bool memory = false;
  };

  Result<const std::string*> refusal_of(uint32_t unit, size_t device);
  Result<std::string> ask(uint32_t unit, size_t device);
  Result<Cost> cost_of(uint32_t unit, size_t device);
  Result<std::optional<Refusal>> try_device(uint32_t unit, size_t device);
  bool wanted_on_first(const Unit& unit) const;
  std::vector<size_t> order_for(uint32_t unit) const;
  tl::unexpected<Error> no_taker(uint32_t unit, std::span<const Refusal> reasons) const;

  PlacementRequest request_;
  std::vector<std::vector<uint32_t>> nodes_of_unit_;
  std::vector<UnitWeights> weights_of_unit_;  ///< each unit by itself, with the whole model's uses
  std::vector<std::vector<std::optional<std::string>>> verdicts_;  ///< [device][unit]; "": yes
  std::vector<std::vector<std::optional<Cost>>> costs_;            ///< [device][unit]

  // State of the current place() call.
  std::vector<UnitPlacement> placed_;
  std::vector<std::optional<uint64_t>> left_;      ///< bytes per device
  std::vector<std::optional<Refusal>> exhausted_;  ///< memory refused this unit
  std::vector<std::optional<Refusal>> first_refusal_;
};

/// "1.5 GiB", "212 MiB", "96 KiB".
std::string bytes_text(uint64_t bytes);

}  // namespace minfer
