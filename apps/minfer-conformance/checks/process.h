// What this process holds, as the kernel tells it: to see what a plugin leaves behind.
#pragma once

#include <cstdint>

namespace conformance {

struct Holdings {
  uint64_t threads = 0;
  uint64_t files = 0;           ///< open file descriptors
  uint64_t resident_bytes = 0;  ///< memory in use
  uint64_t libraries = 0;       ///< loaded ones
};
/// Gives ended threads some time to be gone, until `expected_threads` are left.
Holdings measure_holdings(uint64_t expected_threads = 0);

}  // namespace conformance
