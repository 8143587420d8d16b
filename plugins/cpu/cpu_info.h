// What the machine offers this process: instruction level, cores, memory. Read from the processor
// and the operating system each time; nothing is cached. Thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "matmul.h"

namespace minfer_cpu {

/// "scalar", "avx2", "avx512" or "avx512vnni".
const char* isa_name(Isa isa);

/// The processor's own name, e.g. "Intel(R) Xeon(R) Processor"; "CPU" where it has none.
std::string cpu_name();

/// Cores that this process may use: its affinity mask, and the quota of its control group rounded
/// up.
unsigned allowed_cores();

struct HostMemory {
  uint64_t total = 0;  ///< of the machine, or the control group's limit where that is smaller
  uint64_t free = 0;   ///< what can be had without swapping
};
HostMemory host_memory();

}  // namespace minfer_cpu
