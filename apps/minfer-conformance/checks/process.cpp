#include "process.h"

#include <link.h>
#include <malloc.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

namespace conformance {
namespace {

uint64_t entries_of(const char* folder) {
  const std::filesystem::directory_iterator begin(folder);
  return static_cast<uint64_t>(std::distance(begin, std::filesystem::directory_iterator()));
}

uint64_t resident_pages() {
  uint64_t size = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> size >> resident;
  return resident;
}

}  // namespace

Holdings measure_holdings(uint64_t expected_threads) {
  Holdings out;
  // A thread that was joined may stand in the table for a moment.
  for (int i = 0; i < 100; ++i) {
    out.threads = entries_of("/proc/self/task");
    if (expected_threads == 0 || out.threads <= expected_threads) break;
    ::usleep(1000);
  }
  ::malloc_trim(0);
  out.files = entries_of("/proc/self/fd");
  out.resident_bytes = resident_pages() * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  ::dl_iterate_phdr(
      [](dl_phdr_info*, size_t, void* count) {
        ++*static_cast<uint64_t*>(count);
        return 0;
      },
      &out.libraries);
  return out;
}

}  // namespace conformance
