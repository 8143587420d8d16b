#include "machine.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <gnu/libc-version.h>
#endif

#include <boost/version.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>

#include "minfer/plugin_abi.h"
#include "terminal.h"

extern char** environ;

namespace minfer::doctor {
namespace {

namespace fs = std::filesystem;

constexpr std::streamsize kMaxFileBytes = 1 << 20;

/// The first bytes of a (pseudo) file; empty where there is none.
std::string contents(const fs::path& path) {
  std::ifstream in(path);
  std::string text(kMaxFileBytes, '\0');
  in.read(text.data(), kMaxFileBytes);
  text.resize(static_cast<size_t>(in.gcount()));
  return text;
}

std::string trimmed(std::string text) {
  const size_t first = text.find_first_not_of(" \t\n\"");
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(" \t\n\"") - first + 1);
}

/// The value of "key : value" or "KEY=value".
std::string field(const std::string& text, std::string_view key) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(key)) continue;
    const size_t at = line.find_first_of(":=", key.size());
    if (at != std::string::npos) return trimmed(line.substr(at + 1));
  }
  return "";
}

std::string first_line(const fs::path& path) {
  const std::string text = contents(path);
  return trimmed(text.substr(0, text.find('\n')));
}

Section build() {
  Section out{"build", {}};
  out.facts.emplace_back("minfer", MINFER_RELEASE);
  out.facts.emplace_back("plugin ABI", fmt::format("{}.{}", MINFER_ABI_MAJOR, MINFER_ABI_MINOR));
  out.facts.emplace_back("compiler", __VERSION__);
#ifdef NDEBUG
  out.facts.emplace_back("assertions", "off");
#else
  out.facts.emplace_back("assertions", "on (slower)");
#endif
  out.facts.emplace_back("libraries", fmt::format("Boost {}.{}, fmt {}", BOOST_VERSION / 100000,
                                                  BOOST_VERSION / 100 % 1000, FMT_VERSION));
  return out;
}

Section system() {
  Section out{"system", {}};
  utsname name{};
  if (uname(&name) == 0)
    out.facts.emplace_back("kernel",
                           fmt::format("{} {} {}", name.sysname, name.release, name.machine));
  out.facts.emplace_back("distribution", field(contents("/etc/os-release"), "PRETTY_NAME"));
#ifdef __GLIBC__
  out.facts.emplace_back("C library", fmt::format("glibc {}", gnu_get_libc_version()));
#endif
  return out;
}

/// What kernels look for, in the system's spelling.
std::string levels(const std::string& flags) {
  std::string out;
  for (const char* level : {"avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512_vnni", "avx_vnni",
                            "amx_int8", "asimd", "asimddp", "i8mm", "sve"}) {
    if ((" " + flags + " ").find(fmt::format(" {} ", level)) == std::string::npos) continue;
    out += (out.empty() ? "" : " ") + std::string(level);
  }
  return out.empty() ? "none that kernels use" : out;
}

Section processor() {
  Section out{"processor", {}};
  const std::string info = contents("/proc/cpuinfo");
  out.facts.emplace_back("model", field(info, "model name"));
  const std::string flags = field(info, "flags");
  out.facts.emplace_back("levels", levels(flags.empty() ? field(info, "Features") : flags));
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  const long online = sysconf(_SC_NPROCESSORS_ONLN);
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0)
    out.facts.emplace_back("cores", fmt::format("{} of {} allowed", CPU_COUNT(&allowed), online));
  out.facts.emplace_back("quota", first_line("/sys/fs/cgroup/cpu.max"));
  out.facts.emplace_back("NUMA nodes", first_line("/sys/devices/system/node/online"));
  out.facts.emplace_back("governor",
                         first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"));
  out.facts.emplace_back("load", first_line("/proc/loadavg"));
  return out;
}

Section memory() {
  Section out{"memory", {}};
  const std::string info = contents("/proc/meminfo");
  for (const auto& [name, key] : {std::pair{"total", "MemTotal"},
                                  {"available", "MemAvailable"},
                                  {"huge pages free", "HugePages_Free"}})
    out.facts.emplace_back(name, field(info, key));
  out.facts.emplace_back("cgroup limit", first_line("/sys/fs/cgroup/memory.max"));
  out.facts.emplace_back("transparent huge pages",
                         first_line("/sys/kernel/mm/transparent_hugepage/enabled"));
  return out;
}

std::string limit_text(int resource, bool bytes) {
  rlimit limit{};
  if (getrlimit(static_cast<__rlimit_resource_t>(resource), &limit) != 0) return "";
  if (limit.rlim_cur == RLIM_INFINITY) return "unlimited";
  return bytes ? app::bytes_text(limit.rlim_cur) : std::to_string(limit.rlim_cur);
}

Section limits() {
  return {"limits",
          {{"address space", limit_text(RLIMIT_AS, true)},
           {"locked memory", limit_text(RLIMIT_MEMLOCK, true)},
           {"open files", limit_text(RLIMIT_NOFILE, false)},
           {"threads", limit_text(RLIMIT_NPROC, false)},
           {"stack", limit_text(RLIMIT_STACK, true)}}};
}

Section nvidia() {
  Section out{"NVIDIA driver", {}};
  const std::string version = first_line("/proc/driver/nvidia/version");
  out.facts.emplace_back("version", version.empty() ? "none is loaded" : version);
  std::string nodes;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("/dev", ignored)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("nvidia")) continue;
    const bool usable = access(entry.path().c_str(), R_OK | W_OK) == 0;
    nodes += fmt::format("{}{}{}", nodes.empty() ? "" : ", ", name, usable ? "" : " (no access)");
  }
  out.facts.emplace_back("device files", nodes);
  return out;
}

Section environment() {
  Section out{"environment", {}};
  for (const char* name : {"CUDA_VISIBLE_DEVICES", "CUDA_LAUNCH_BLOCKING", "LD_LIBRARY_PATH",
                           "LD_PRELOAD", "OMP_NUM_THREADS"})
    if (const char* value = std::getenv(name)) out.facts.emplace_back(name, value);
  for (const std::string& name : minfer_variables())
    out.facts.emplace_back(name, std::getenv(name.c_str()));
  return out;
}

}  // namespace

std::vector<std::string> minfer_variables() {
  std::vector<std::string> names;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    if (text.starts_with("MINFER_")) names.emplace_back(text.substr(0, text.find('=')));
  }
  return names;
}

std::vector<Section> machine_sections() {
  std::vector<Section> sections = {build(),  system(), processor(),  memory(),
                                   limits(), nvidia(), environment()};
  for (Section& section : sections)
    std::erase_if(section.facts, [](const auto& fact) { return fact.second.empty(); });
  std::erase_if(sections, [](const Section& section) { return section.facts.empty(); });
  return sections;
}

}  // namespace minfer::doctor
