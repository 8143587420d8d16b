// minfer-conformance: does a plugin keep the contract of the ABI, and how fast is it?
#include <fmt/format.h>

#include <cstdio>

#include "files.h"
#include "options.h"
#include "report.h"
#include "terminal.h"

using namespace conformance;
using minfer::Result;

namespace {

constexpr const char* kProgram = "minfer-conformance";

/// Asks a child which device there is: a note names it, a refusal says why there is none.
void find_device(Report& report, const Options& options) {
  const Check look{"device", "", false, false,
                   [](const Target& target) { listener().note(describe_device(target.device)); }};
  const CheckResult found = run_in_child(look, options.target, options.limit);
  if (found.outcome == Outcome::kPassed && !found.notes.empty()) {
    report.device = found.notes.front();
  } else {
    report.no_device = !found.reasons.empty() ? found.reasons.front()
                       : !found.texts.empty() ? found.texts.front()
                                              : "it did not say why";
  }
}

CheckResult skipped(const Check& check) {
  CheckResult result;
  result.name = check.name;
  result.what = check.what;
  return result;
}

Result<int> check_plugin(const Options& options) {
  const bool table = options.json_file != "-";
  if (table && !options.json_file.empty()) {
    MINFER_TRY(minfer::app::check_writable(options.json_file));
  }
  Report report;
  report.target = options.target;
  report.seed = options.seed;
  settings() = {options.target.plugin.string(), options.target.device, options.seed};
  find_device(report, options);
  const auto show = [&](const std::string& text) -> Result<void> {
    if (table) {
      MINFER_TRY(minfer::app::write_out(text));
    }
    return {};
  };
  MINFER_TRY(show(heading_text(report)));
  for (const Check& check : options.checks) {
    const bool can_run = report.no_device.empty() || !check.needs_device;
    report.results.push_back(can_run ? run_in_child(check, options.target, options.limit)
                                     : skipped(check));
    if (can_run) {
      MINFER_TRY(show(result_text(report.results.back())));
    }
  }
  MINFER_TRY(show(summary_text(report)));
  if (!table) {
    MINFER_TRY(minfer::app::write_out(json_text(report)));
  } else if (!options.json_file.empty()) {
    MINFER_TRY(minfer::app::write_file(options.json_file, json_text(report)));
  }
  return report.exit_status();
}

Result<int> run_command(int argc, char** argv) {
  MINFER_ASSIGN(const Options options, parse_options(argc, argv));
  if (options.help) return minfer::app::print(help_text());
  if (options.version) return minfer::app::print("minfer " MINFER_RELEASE "\n");
  if (options.list) return minfer::app::print(check_list());
  minfer::app::log_to_stderr(kProgram, minfer::LogLevel::kWarn);
  return check_plugin(options);
}

}  // namespace

int main(int argc, char** argv) {
  return minfer::app::run_program(kProgram, argc, argv, run_command);
}
