#include "alloc_counter.h"

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

}  // namespace

#if MINFER_COUNT_ALLOCATIONS
extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t n, size_t bytes);
void* __libc_realloc(void* old, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);

void* malloc(size_t bytes) {
  if (g_counting) ++g_count;
  return __libc_malloc(bytes);
}
void* calloc(size_t n, size_t bytes) {
  if (g_counting) ++g_count;
  return __libc_calloc(n, bytes);
}
void* realloc(void* old, size_t bytes) {
  if (g_counting) ++g_count;
  return __libc_realloc(old, bytes);
}
void* memalign(size_t alignment, size_t bytes) {
  if (g_counting) ++g_count;
  return __libc_memalign(alignment, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) {
  return memalign(alignment, bytes);
}
int posix_memalign(void** out, size_t alignment, size_t bytes) {
  *out = memalign(alignment, bytes);
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

}  // namespace minfer::testing
