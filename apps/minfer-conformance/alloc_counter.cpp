#include "alloc_counter.h"

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
#define MINFER_COUNT_ALLOCATIONS 0
#else
#define MINFER_COUNT_ALLOCATIONS 1
#endif

namespace {

std::atomic<bool> g_counting{false};
std::atomic<uint64_t> g_count{0};
constexpr uint64_t kMaxCallers = 4096;
void* g_callers[kMaxCallers];

[[maybe_unused]] void count(void* caller) {
  if (!g_counting) return;
  const uint64_t i = g_count++;
  if (i < kMaxCallers) g_callers[i] = caller;
}

}  // namespace

#if MINFER_COUNT_ALLOCATIONS
extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t n, size_t bytes);
void* __libc_realloc(void* old, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);

void* malloc(size_t bytes) {
  count(__builtin_return_address(0));
  return __libc_malloc(bytes);
}
void* calloc(size_t n, size_t bytes) {
  count(__builtin_return_address(0));
  return __libc_calloc(n, bytes);
}
void* realloc(void* old, size_t bytes) {
  count(__builtin_return_address(0));
  return __libc_realloc(old, bytes);
}
void* memalign(size_t alignment, size_t bytes) {
  count(__builtin_return_address(0));
  return __libc_memalign(alignment, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) {
  count(__builtin_return_address(0));
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** out, size_t alignment, size_t bytes) {
  count(__builtin_return_address(0));
  *out = __libc_memalign(alignment, bytes);
  return *out ? 0 : ENOMEM;
}
}
#endif

namespace minfer::testing {

bool can_count_allocations() {
  return MINFER_COUNT_ALLOCATIONS != 0;
}

void start_counting() {
  g_count = 0;
  g_counting = true;
}

uint64_t stop_counting() {
  g_counting = false;
  return g_count;
}

std::vector<AllocatingLibrary> allocating_libraries() {
  std::vector<AllocatingLibrary> out;
  for (uint64_t i = 0; i < std::min<uint64_t>(g_count, kMaxCallers); ++i) {
    Dl_info info{};
    const bool known = ::dladdr(g_callers[i], &info) != 0 && info.dli_fname != nullptr;
    const std::string path = known ? info.dli_fname : "unknown";
    const auto found = std::find_if(out.begin(), out.end(),
                                    [&](const AllocatingLibrary& one) { return one.path == path; });
    if (found == out.end()) {
      out.push_back({path, 1});
    } else {
      ++found->calls;
    }
  }
  return out;
}

}  // namespace minfer::testing
