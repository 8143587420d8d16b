// Host memory that the CPU plugin holds for weights and buffers: aligned, bounded by what the
// machine has, and counted. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>

namespace minfer_cpu {

/// Alignment of every allocation and of offsets in bindings: a cache line, and a 512-bit register.
inline constexpr uint64_t kAlignment = 64;

inline constexpr uint64_t align_up(uint64_t value, uint64_t alignment = kAlignment) {
  return (value + alignment - 1) / alignment * alignment;
}

/// Bytes held now and at most, of one device.
class MemoryCounter {
 public:
  void add(uint64_t bytes);
  void subtract(uint64_t bytes) { held_.fetch_sub(bytes); }
  uint64_t held() const { return held_.load(); }
  uint64_t peak() const { return peak_.load(); }

 private:
  std::atomic<uint64_t> held_{0};
  std::atomic<uint64_t> peak_{0};
};

/// A range of memory with unspecified content, aligned to kAlignment (to huge pages where it is
/// large, which spares address translation when weights are streamed). Movable, owns its bytes.
class Allocation {
 public:
  Allocation() = default;
  /// Throws Failure(MINFER_OOM_HOST) with the numbers when `bytes` does not fit. `counter` outlives
  /// it.
  Allocation(MemoryCounter& counter, uint64_t bytes, const char* what);
  ~Allocation();
  Allocation(Allocation&& other) noexcept;
  Allocation& operator=(Allocation&& other) noexcept;

  uint8_t* data() const { return data_; }
  uint64_t bytes() const { return bytes_; }

 private:
  MemoryCounter* counter_ = nullptr;
  uint8_t* data_ = nullptr;
  uint64_t bytes_ = 0;
};

}  // namespace minfer_cpu
