// The step runner: sends a step's inputs, runs its splits with the copies between them, and reads
// back what was asked for.
//
// Steps go in with enqueue() and are finished with complete(), in order; where a step is one split,
// several may be under way, each with its own slot of pinned memory. Across devices the host waits
// for an event and copies exactly the crossing tensors. Nothing is allocated after create(). Used
// by one thread at a time; cancel() may come from another.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "engine/kv_cache.h"
#include "engine/step_plan.h"
#include "engine/step_timer.h"

namespace minfer {

/// Steps that may be under way at once: enough that a device always has the next one at hand.
constexpr uint32_t kStepSlots = 4;

/// Bytes of pinned memory that a runner takes.
struct StagingSizes {
  uint64_t inputs = 0;     ///< one input block
  uint64_t crossings = 0;  ///< of a step
  uint64_t logits = 0;     ///< largest read-back
  uint64_t arg_max = 0;    ///< largest read-back
  uint32_t seqs = 1;       ///< in a step, at most
  uint64_t total() const { return kStepSlots * (inputs + arg_max) + crossings + logits; }
};

/// One KV layer as copies on write need it.
struct KvRegion {
  minfer_kv_desc desc{};
  size_t device = 0;
  minfer_buffer* buffer = nullptr;
};

class StepRunner {
 public:
  struct Step {
    StepPlan* plan = nullptr;
    std::span<const StepEntry> entries;
    StepCounts counts;
    bool read_logits = false;
  };

  /// `devices` and `memory` are borrowed and outlive the runner. Splits are on the same devices in
  /// every plan, the last one holding the outputs.
  static Result<std::unique_ptr<StepRunner>> create(
      std::span<const std::shared_ptr<Device>> devices, std::span<const DeviceMemory> memory,
      std::vector<KvRegion> regions, std::span<const size_t> device_of_split,
      const StagingSizes& sizes);
  ~StepRunner();

  /// Queues a step whose pages are reserved in `kv`; returns its slot. On failure nothing of it is
  /// under way any more.
  Result<uint32_t> enqueue(const Step& step, const KvCache& kv);
  /// True once complete() will not block.
  Result<bool> ready(uint32_t slot);
  /// Waits for a step. On failure nothing at all is under way any more.
  Result<void> complete(uint32_t slot);
  /// Waits for everything and forgets it, errors included.
  void drain();

  /// Read-back of a completed step, until its slot (logits: any step) is used again.
  std::span<const TokenId> arg_max(uint32_t slot) const;
  std::span<const float> logits() const { return {logits_, n_logits_}; }

  /// Where spans go; null: nowhere.
  void set_trace(Trace* trace) { trace_ = trace; }
  void set_timing(bool on) { timing_ = on; }
  bool timing() const { return timing_; }
  const StepTimer& timer() const { return timer_; }

  /// Asks the work under way to end early.
  void cancel();
  /// Forgets an earlier cancel(), which may have come too late for what it meant.
  void clear_cancel() {
    if (cancelled_.exchange(false)) drain();
  }

 private:
  struct Slot {
    uint8_t* inputs = nullptr;
    TokenId* arg_max = nullptr;
    uint32_t n_arg_max = 0;
    EventHandle done;
    StepPlan* plan = nullptr;
    bool pending = false;
    bool timed = false;
  };

  StepRunner(std::span<const std::shared_ptr<Device>> devices, std::span<const DeviceMemory> memory,
             std::vector<KvRegion> regions);
  Result<void> create_queues(std::span<const size_t> device_of_split);
  Result<void> pin_memory(const StagingSizes& sizes);
  Result<void> send_inputs(const Step& step, const KvCache& kv, Slot& slot);
  Result<void> copy_pages(const KvCache& kv);
  Result<void> run_splits(const Step& step);
  Result<void> receive(const Step& step, uint32_t split);
  Result<void> send(const Step& step, uint32_t split);
  Result<void> read_back(const Step& step, Slot& slot);
  Result<void> queue_step(const Step& step, const KvCache& kv, Slot& slot);
  Result<void> check_cancel() const;

  std::span<const std::shared_ptr<Device>> devices_;
  std::span<const DeviceMemory> memory_;
  std::vector<KvRegion> regions_;
  std::vector<std::shared_ptr<void>> pinned_;  ///< owns what the raw pointers below point into
  std::vector<QueueHandle> queues_;            ///< per device
  std::vector<EventHandle> split_done_;        ///< per split
  std::vector<Slot> slots_;
  uint32_t next_slot_ = 0;
  uint8_t* crossings_ = nullptr;
  float* logits_ = nullptr;
  size_t n_logits_ = 0;
  std::vector<uint32_t> copy_from_;
  std::vector<uint32_t> copy_to_;
  std::vector<Trace::Clock::time_point> split_begin_;  ///< of the last step, while it is traced
  StepTimer timer_;
  Trace* trace_ = nullptr;
  bool timing_ = false;
  std::atomic<bool> cancelled_{false};
};

}  // namespace minfer
