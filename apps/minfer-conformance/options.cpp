#include "options.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <sstream>

#include "flags.h"
#include "minfer/nearest.h"

namespace conformance {
namespace {

namespace po = boost::program_options;
using minfer::ErrorCode;
using minfer::fail;
using minfer::Result;
using minfer::app::Flags;
using minfer::app::one;
using minfer::app::several;

constexpr uint32_t kMaxDevice = 1023;
constexpr uint32_t kMaxLimit = 86'400;

po::options_description describe() {
  po::options_description d("options", 100, 50);
  auto add = d.add_options();
  add("plugin,p", one("PATH"), "the plugin to check");
  add("device,d", one("N"), "which of its devices [0]");
  add("only", several("CHECK"), "run this check or group of checks; may be given more than once");
  add("except", several("CHECK"),
      "leave this check or group of checks out; may be given more than once");
  add("json", one("FILE"),
      "also write the report as JSON; -: to standard output, without the table");
  add("second", one("PATH"), "the plugin that is loaded beside it [one that is found, or a copy]");
  add("time-limit", one("SECONDS"), "of each check [120]");
  add("seed", one("N"), "of all random inputs [fresh, and shown in the report]");
  add("list", "list the checks");
  add("version", "print the version");
  add("help,h", "print this");
  return d;
}

/// The part before the dot, for checks that have one.
std::string group_of(const std::string& name) {
  return name.substr(0, name.find('.'));
}

/// Is the check among these names of checks and groups?
bool is_among(const Check& check, const std::vector<std::string>& names) {
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    return name == check.name || name == group_of(check.name);
  });
}

/// Every name is that of a check or a group.
Result<void> check_names(const std::vector<std::string>& names, const char* flag) {
  std::vector<std::string> known;
  for (const Check& check : all_checks()) {
    known.push_back(check.name);
    known.push_back(group_of(check.name));
  }
  for (const std::string& name : names) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    const std::string nearest = minfer::nearest_name(name, known);
    return fail(
        ErrorCode::kUsage, fmt::format("there is no check '{}'", name), flag,
        nearest.empty() ? "see --list" : fmt::format("did you mean '{}'? see --list", nearest));
  }
  return {};
}

/// Those of `only`, or all where it is empty, without those of `except`.
Result<std::vector<Check>> choose(const std::vector<std::string>& only,
                                  const std::vector<std::string>& except) {
  MINFER_TRY(check_names(only, "--only"));
  MINFER_TRY(check_names(except, "--except"));
  std::vector<Check> chosen;
  for (const Check& check : all_checks()) {
    if ((only.empty() || is_among(check, only)) && !is_among(check, except))
      chosen.push_back(check);
  }
  return chosen;
}

/// A file that is there, as an absolute path.
Result<std::filesystem::path> file_of(const Flags& flags, const char* name) {
  std::error_code error;
  const auto path = std::filesystem::absolute(flags.text(name), error);
  if (error || !std::filesystem::is_regular_file(path, error))
    return fail(ErrorCode::kNotFound, "there is no such file", flags.text(name),
                fmt::format("--{} names a plugin, e.g. build/libmy_backend.so", name));
  return path;
}

}  // namespace

Result<Options> parse_options(int argc, char** argv) {
  MINFER_ASSIGN(const Flags flags, Flags::parse(argc, argv, describe()));
  Options out;
  out.help = flags.has("help");
  out.version = flags.has("version");
  out.list = flags.has("list");
  if (out.help || out.version || out.list) return out;
  if (!flags.has("plugin"))
    return fail(ErrorCode::kUsage, "no plugin to check", "", "give --plugin PATH; see --help");
  MINFER_ASSIGN(out.target.plugin, file_of(flags, "plugin"));
  if (flags.has("second")) {
    MINFER_ASSIGN(out.target.second, file_of(flags, "second"));
  }
  MINFER_TRY(flags.take<uint32_t>("device", out.target.device, 0, kMaxDevice));
  out.seed = std::random_device()();
  MINFER_TRY(flags.take<uint64_t>("seed", out.seed, 0, UINT64_MAX));
  auto limit = static_cast<uint32_t>(out.limit.count());
  MINFER_TRY(flags.take<uint32_t>("time-limit", limit, 1, kMaxLimit));
  out.limit = std::chrono::seconds(limit);
  out.json_file = flags.text("json");
  MINFER_ASSIGN(out.checks, choose(flags.texts("only"), flags.texts("except")));
  return out;
}

std::string help_text() {
  std::ostringstream out;
  out << "usage: minfer-conformance --plugin PATH [options]\n\n"
         "Checks that a backend plugin keeps the contract of the plugin ABI, and measures it. Each "
         "check\n"
         "runs in a process of its own, so a crash or a hang costs that check alone. "
         "docs/conformance.md\n"
         "says what each demands and why. Exit status: 0 when nothing failed, 1 when a check did, "
         "4 when\n"
         "nothing failed but there was no device to check. Values in [] are the defaults.\n\n"
      << describe();
  return out.str();
}

std::string check_list() {
  std::string out;
  for (const Check& check : all_checks()) out += fmt::format("{:<52} {}\n", check.name, check.what);
  return out;
}

}  // namespace conformance
