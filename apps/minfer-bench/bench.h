// Measurements of minfer-bench: prompt processing, generation at a depth, and batches of sequences.
//
// Tokens are random (a fixed seed), so any model can be measured, with or without a tokenizer.
// Every repetition is timed on its own after one that is not counted.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "minfer/engine.h"

namespace minfer::bench {

/// What to run: `prompt` tokens then `generate` tokens, in `batch` sequences that each already hold
/// `depth` positions.
struct Test {
  uint32_t prompt = 0;
  uint32_t generate = 0;
  uint32_t depth = 0;
  uint32_t batch = 1;
  std::string name() const;  ///< "pp512", "tg128", "pp512+tg128", with " @ d4096" and " x8"
};

struct Measurement {
  Test test;
  std::vector<double> tokens_per_second;  ///< one per repetition, all sequences together
  std::vector<std::string> kernels;       ///< labels of the matmul and attention kernels that ran
  std::vector<std::string> devices;
  double median() const;
  double min() const;
  double max() const;
};

/// Runs one test `repetitions` times.
Result<Measurement> run_test(Engine& engine, const Test& test, uint32_t repetitions);

/// Positions one sequence needs for a test of at most 2^24 tokens each.
inline uint32_t positions(const Test& t) {
  return t.depth + t.prompt + t.generate;
}

}  // namespace minfer::bench
