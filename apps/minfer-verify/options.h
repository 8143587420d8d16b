// The command line of minfer-verify.
#pragma once

#include <string>
#include <vector>

#include "host.h"
#include "minfer/config.h"
#include "minfer/result.h"

namespace minfer::verify {

inline constexpr uint32_t kMaxStepTokens = 4096;
inline constexpr uint32_t kMaxPast = 65536;

struct Options {
  RunConfig candidate;  ///< model and place of what is checked
  std::vector<app::GateFlag> candidate_gates;
  RunConfig reference;  ///< of what it is checked against
  std::vector<app::GateFlag> reference_gates;

  bool parity = true;
  bool greedy = true;
  bool replay = true;
  bool batch = true;
  std::vector<uint32_t> step_tokens = {1, 16};  ///< steps of the parity gate
  uint32_t past = 40;                           ///< positions before the one-token step
  uint32_t tokens = 32;                         ///< that the other gates generate
  uint32_t sequences = 3;                       ///< of the batch gate
  float tolerance = 0.15f;                      ///< relative error of logits
  std::string prompt;
  std::string text;               ///< file of the text gate, which runs where one is named
  uint32_t text_tokens = 4096;    ///< read from it, at most
  uint32_t text_window = 512;     ///< tokens read with one another in sight
  uint32_t text_step = 0;         ///< tokens of a step on the candidate; 0: as many as can be
  float text_tolerance = 0.001f;  ///< relative difference of the mean log-probabilities
  std::string dump;               ///< write the steps' values and stop
  std::string against;            ///< compare with such a file instead of a reference device
  bool json = false;
  bool quiet = false;
  bool help = false;
  bool version = false;
};

Result<Options> parse_options(int argc, char** argv);
std::string help_text();

}  // namespace minfer::verify
