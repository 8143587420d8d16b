// Reads cpuid, /proc and the control group files.
#include "cpu_info.h"

#include <sched.h>
#include <sys/sysinfo.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <fstream>
#include <limits>
#include <thread>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace minfer_cpu {
namespace {

#if defined(__x86_64__)
// Which register states the operating system saves (XCR0).
uint64_t saved_states() {
  uint32_t low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (static_cast<uint64_t>(high) << 32) | low;
}
#endif

// The control group of this process in the unified hierarchy, e.g. "/user.slice/x"; empty if none.
std::string unified_group() {
  std::ifstream file("/proc/self/cgroup");
  std::string line;
  while (std::getline(file, line)) {
    if (line.rfind("0::", 0) == 0) return line.substr(3);
  }
  return {};
}

// Calls `visit` with the text of `name` in the process's group and each of its parents: limits of
// all of them hold.
template <class Visit>
void for_each_group(const char* name, Visit&& visit) {
  std::string group = unified_group();
  for (;;) {
    std::ifstream file("/sys/fs/cgroup" + group + "/" + name);
    std::string line;
    if (std::getline(file, line)) visit(line);
    if (group.empty() || group == "/") return;
    group.resize(group.find_last_of('/'));
  }
}

bool parse(const std::string& text, uint64_t& value) {
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  return result.ec == std::errc();
}

unsigned quota_cores() {
  unsigned cores = std::numeric_limits<unsigned>::max();
  for_each_group("cpu.max", [&](const std::string& line) {
    uint64_t quota = 0, period = 0;
    const size_t space = line.find(' ');
    if (space == std::string::npos || !parse(line.substr(0, space), quota) ||
        !parse(line.substr(space + 1), period) || period == 0) {
      return;
    }
    cores = std::min(cores,
                     static_cast<unsigned>(std::max<uint64_t>(1, (quota + period - 1) / period)));
  });
  return cores;
}

uint64_t meminfo_kib(const char* key) {
  std::ifstream file("/proc/meminfo");
  std::string name;
  uint64_t value = 0;
  std::string unit;
  while (file >> name >> value) {
    std::getline(file, unit);
    if (name == key) return value;
  }
  return 0;
}

Isa query_isa() {
#if defined(__x86_64__)
  uint32_t a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid(1, &a, &b, &c, &d)) return Isa::kScalar;
  constexpr uint32_t kFma = 1u << 12, kOsxsave = 1u << 27, kAvx = 1u << 28, kF16c = 1u << 29;
  constexpr uint32_t kFirst = kFma | kOsxsave | kAvx | kF16c;
  if ((c & kFirst) != kFirst || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) return Isa::kScalar;
  const uint64_t states = saved_states();
  constexpr uint32_t kAvx2 = 1u << 5;
  if ((states & 0x6) != 0x6 || (b & kAvx2) == 0) return Isa::kScalar;
  constexpr uint32_t kF = 1u << 16, kDq = 1u << 17, kBw = 1u << 30, kVl = 1u << 31;
  constexpr uint32_t kAvx512 = kF | kDq | kBw | kVl;
  if ((states & 0xe6) != 0xe6 || (b & kAvx512) != kAvx512) return Isa::kAvx2;
  constexpr uint32_t kVnni = 1u << 11;
  return (c & kVnni) != 0 ? Isa::kAvx512Vnni : Isa::kAvx512;
#else
  return Isa::kScalar;
#endif
}

}  // namespace

Isa detect_isa() {
  // Asked once: a virtual machine traps CPUID, which then takes tens of microseconds.
  static const Isa isa = query_isa();
  return isa;
}

const char* isa_name(Isa isa) {
  switch (isa) {
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvx512:
      return "avx512";
    case Isa::kAvx512Vnni:
      return "avx512vnni";
    default:
      return "scalar";
  }
}

std::string cpu_name() {
#if defined(__x86_64__)
  uint32_t words[12] = {};
  if (__get_cpuid_max(0x80000000u, nullptr) >= 0x80000004u) {
    for (uint32_t leaf = 0; leaf < 3; ++leaf) {
      uint32_t* w = words + leaf * 4;
      __get_cpuid(0x80000002u + leaf, &w[0], &w[1], &w[2], &w[3]);
    }
    char text[sizeof words + 1] = {};
    std::memcpy(text, words, sizeof words);
    std::string name = text;
    const size_t first = name.find_first_not_of(' ');
    const size_t last = name.find_last_not_of(' ');
    if (first != std::string::npos) return name.substr(first, last - first + 1);
  }
#endif
  return "CPU";
}

unsigned allowed_cores() {
  unsigned cores = std::max(1u, std::thread::hardware_concurrency());
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    cores = static_cast<unsigned>(std::max(1, CPU_COUNT(&set)));
  }
  return std::min(cores, quota_cores());
}

HostMemory host_memory() {
  HostMemory memory;
  struct sysinfo info {};
  if (sysinfo(&info) == 0) memory.total = static_cast<uint64_t>(info.totalram) * info.mem_unit;
  memory.free = meminfo_kib("MemAvailable:") * 1024;
  for_each_group("memory.max", [&](const std::string& line) {
    uint64_t limit = 0;
    if (parse(line, limit) && limit < memory.total) memory.total = limit;
  });
  memory.free = std::min(memory.free, memory.total);
  return memory;
}

}  // namespace minfer_cpu
