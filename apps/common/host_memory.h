// The process's own memory, as the system counts it.
#pragma once

#include <cstdint>

namespace minfer::app {

/// Largest resident size so far, or since the last reset_peak_host_memory(), in bytes; mapped files
/// that were read count. 0: the system does not say.
uint64_t peak_host_memory();

/// Starts counting anew where the system allows that; elsewhere the peak stays that of the whole
/// process.
void reset_peak_host_memory();

}  // namespace minfer::app
