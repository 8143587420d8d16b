// The report: a table for people and JSON for machines.
#pragma once

#include <string>
#include <vector>

#include "child.h"

namespace conformance {

struct Report {
  Target target;
  uint64_t seed = 0;
  std::string device;     ///< "cpu 0.1.0, device 0: AMD EPYC ..."; empty: none
  std::string no_device;  ///< why there is none
  std::vector<CheckResult> results;

  uint32_t count(Outcome outcome) const;
  bool failed() const;
  /// 0, 1 when a check failed, or that of "not found" where there was no device to check.
  int exit_status() const;
};

/// "pass", "FAIL", "CRASH", "HANG", "skip".
const char* outcome_word(Outcome outcome);

/// One line of the table, with what was found on lines below.
std::string result_text(const CheckResult& result);
/// The lines before and after the results.
std::string heading_text(const Report& report);
std::string summary_text(const Report& report);
/// All of it: "plugin", "device", "seed", "passed", "checks".
std::string json_text(const Report& report);

}  // namespace conformance
