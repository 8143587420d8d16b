// Anonymous mappings for large ranges (given back at once when freed), the heap for small ones.
#include "memory.h"

#include <sys/mman.h>

#include <cstdlib>
#include <utility>

#include "cpu_info.h"
#include "failure.h"

namespace minfer_cpu {
namespace {

constexpr uint64_t kMapFrom = uint64_t{1} << 20;

// One huge page more than asked, so that the start can lie on one: kept out of the count, since
// untouched pages take no memory.
constexpr uint64_t kHugePage = uint64_t{2} << 20;

double gib(uint64_t bytes) {
  return static_cast<double>(bytes) / (1024.0 * 1024.0 * 1024.0);
}

uint8_t* map(uint64_t bytes) {
  const uint64_t length = align_up(bytes, kHugePage) + kHugePage;
  void* mapped = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  const auto start = reinterpret_cast<uintptr_t>(mapped);
  const auto aligned = static_cast<uintptr_t>(align_up(start, kHugePage));
  const uint64_t kept = align_up(bytes, kHugePage);
  if (aligned > start) munmap(mapped, aligned - start);
  if (start + length > aligned + kept) {
    munmap(reinterpret_cast<void*>(aligned + kept), start + length - aligned - kept);
  }
#ifdef MADV_HUGEPAGE
  madvise(reinterpret_cast<void*>(aligned), kept, MADV_HUGEPAGE);
#endif
  return reinterpret_cast<uint8_t*>(aligned);
}

}  // namespace

void MemoryCounter::add(uint64_t bytes) {
  const uint64_t now = held_.fetch_add(bytes) + bytes;
  uint64_t peak = peak_.load();
  while (peak < now && !peak_.compare_exchange_weak(peak, now)) {
  }
}

Allocation::Allocation(MemoryCounter& counter, uint64_t bytes, const char* what)
    : counter_(&counter), bytes_(bytes) {
  if (bytes == 0) return;
  if (bytes >= kMapFrom) {
    const uint64_t total = host_memory().total;
    const uint64_t held = counter.held();
    if (bytes > total || held > total - bytes) {
      throw Failure(MINFER_OOM_HOST,
                    "cpu: %s needs %.2f GiB; the machine has %.2f GiB, of which this device holds "
                    "%.2f GiB",
                    what, gib(bytes), gib(total), gib(held));
    }
    data_ = map(bytes);
  } else {
    data_ = static_cast<uint8_t*>(std::aligned_alloc(kAlignment, align_up(bytes)));
  }
  if (data_ == nullptr) {
    throw Failure(MINFER_OOM_HOST, "cpu: the system has no %.1f KiB for %s",
                  static_cast<double>(bytes) / 1024, what);
  }
  counter.add(bytes);
}

Allocation::~Allocation() {
  if (data_ == nullptr) return;
  counter_->subtract(bytes_);
  if (bytes_ >= kMapFrom) {
    munmap(data_, align_up(bytes_, kHugePage));
  } else {
    std::free(data_);
  }
}

Allocation::Allocation(Allocation&& other) noexcept
    : counter_(std::exchange(other.counter_, nullptr)),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)) {}

Allocation& Allocation::operator=(Allocation&& other) noexcept {
  std::swap(counter_, other.counter_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

}  // namespace minfer_cpu
