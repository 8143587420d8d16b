// A small plan with a known answer, for checks of when things happen rather than of numbers:
// out = x + w * x in a matrix product and a sum.
//
// One thread at a time.
#pragma once

#include "cases.h"

namespace conformance {

class SmallPlan {
 public:
  static constexpr int64_t kRow = 32;
  static constexpr uint32_t kTokens = 4;

  SmallPlan(Bench& bench, uint64_t model = 1);

  /// Values for x: kTokens rows.
  std::vector<float> random_x();
  /// What a run of `tokens` tokens on `x` leaves in the output, the rows behind included.
  std::vector<double> answer(const std::vector<float>& x, uint32_t tokens = kTokens) const;
  /// Queues one run; does not wait.
  void enqueue(minfer_queue* queue, uint32_t tokens = kTokens);
  /// Writes x, runs, waits and looks at the output; whether it was right.
  bool run_and_check(minfer_queue* queue, const std::string& what, uint32_t tokens = kTokens);

  Session& session() { return *session_; }
  /// Memory that x and the output are bound to.
  Memory& x() { return session_->memory(x_); }
  Memory& out() { return session_->memory(out_); }
  static constexpr uint64_t kBytes = kRow * kTokens * sizeof(float);

 private:
  Bench& bench_;
  Weight weight_;
  Split split_;
  uint32_t x_ = 0, out_ = 0;
  std::unique_ptr<Session> session_;
};

/// Host memory that copies may take without waiting: the device's own kind where it has one.
class HostMemory {
 public:
  HostMemory(Device& device, uint64_t bytes);
  ~HostMemory();
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;
  float* floats(uint64_t offset_bytes = 0) {
    return reinterpret_cast<float*>(static_cast<uint8_t*>(memory_) + offset_bytes);
  }

 private:
  Device& device_;
  bool pinned_ = false;
  void* memory_ = nullptr;
};

}  // namespace conformance
