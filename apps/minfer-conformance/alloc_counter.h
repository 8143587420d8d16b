// Counts calls of the C allocator in the whole process, plugins and threads included: the program
// that links this replaces malloc and its kin.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace minfer::testing {

/// False where the allocator cannot be counted (under sanitizers).
bool can_count_allocations();
/// Starts counting from zero.
void start_counting();
/// Stops and returns the count.
uint64_t stop_counting();

struct AllocatingLibrary {
  std::string path;
  uint64_t calls = 0;  ///< of the first 4096 since start_counting()
};
/// Which libraries called, after stop_counting().
std::vector<AllocatingLibrary> allocating_libraries();

}  // namespace minfer::testing
