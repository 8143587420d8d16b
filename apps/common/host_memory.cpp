#include "host_memory.h"

#include <sys/resource.h>

#include <fstream>
#include <string>

namespace minfer::app {

uint64_t peak_host_memory() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word != "VmHWM:") continue;
    uint64_t kib = 0;
    status >> kib;
    return kib * 1024;
  }
  rusage usage{};
  if (getrusage(RUSAGE_SELF, &usage) != 0) return 0;
  return static_cast<uint64_t>(usage.ru_maxrss) * 1024;
}

void reset_peak_host_memory() {
  // "5" resets VmHWM, see proc(5).
  std::ofstream("/proc/self/clear_refs") << "5";
}

}  // namespace minfer::app
