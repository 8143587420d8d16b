// Runs one check in a forked child, so that a crash, an exit or a hang of the plugin costs that
// check alone.
//
// The child reports over a pipe as it goes, so that what it found before it died is known, and
// which variant it died in. What plugin code prints is caught. The parent never loads the plugin: a
// driver must not be started before a fork. Call from a process with one thread.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "check.h"

namespace conformance {

enum class Outcome {
  kPassed,
  kFailed,
  kCrashed,  ///< ended by a signal, or left by exit()
  kHung,     ///< still running at the time limit
  kSkipped,  ///< the device refused all of it, or there is no device
};

struct Figure {
  std::string name;
  double value = 0;
  std::string unit;
};

struct CheckResult {
  std::string name;
  std::string what;
  Outcome outcome = Outcome::kSkipped;
  uint32_t variants = 0;  ///< those that ran
  uint32_t refused = 0;   ///< those that the device does not offer
  uint32_t failures = 0;
  std::vector<std::string> texts;    ///< of failures, at most kMaxTexts
  std::vector<std::string> reasons;  ///< of refusals, each once, at most kMaxTexts
  std::vector<std::string> notes;
  std::vector<Figure> figures;
  double seconds = 0;
};
constexpr size_t kMaxTexts = 5;

CheckResult run_in_child(const Check& check, const Target& target, std::chrono::seconds limit);

}  // namespace conformance
