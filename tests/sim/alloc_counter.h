// Counts calls of the C allocator in the whole process, plugins and threads included.
#pragma once

#include <cstdint>

namespace minfer::testing {

/// False where the allocator cannot be counted (under sanitizers).
bool can_count_allocations();
/// Starts counting from zero.
void start_counting();
/// Stops and returns the count.
uint64_t stop_counting();

}  // namespace minfer::testing
