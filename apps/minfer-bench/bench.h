// The measurements of minfer-bench: every workload on every model in every place.
//
// Each test is run twice without counting (once measured node by node, which tells what runs; once
// as it will be timed), then timed `repetitions` times. Used by one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ceilings.h"
#include "minfer/engine.h"
#include "options.h"
#include "samples.h"
#include "work.h"
#include "workload.h"

namespace minfer::bench {

struct DevicePeak {
  std::string device;
  uint64_t bytes = 0;  ///< the most that the plugin held there
};

/// One model in one place.
struct Subject {
  std::string model;  ///< file
  std::string name;   ///< general.name
  std::string architecture;
  std::string quantization;  ///< type of most of its bytes, e.g. "Q4_K"
  uint64_t file_bytes = 0;   ///< of its tensors
  uint64_t parameters = 0;
  uint64_t held_bytes = 0;  ///< weights as the devices hold them
  std::string asked;        ///< the --device list; empty: left to the program
  int32_t gpu_layers = -1;
  uint32_t step_tokens = 0;
  std::string kv_type;
  std::string threads;           ///< value of the CPU backend's gate; empty: no CPU backend
  double load_seconds = 0;       ///< from the file's opening to the engine being ready
  uint64_t host_peak_bytes = 0;  ///< resident, load and tests
  std::vector<DevicePeak> device_peaks;
};

struct Record {
  std::shared_ptr<const Subject> subject;
  app::Workload test;
  uint64_t tokens = 0;                 ///< of one repetition, all sequences together
  std::vector<double> seconds;         ///< of each repetition
  std::vector<double> first_token;     ///< seconds; empty: the test makes no token
  std::vector<OpTiming> kernels;       ///< that ran, slowest first
  std::vector<std::string> devices;    ///< that ran, in order of preference
  std::vector<std::string> fallbacks;  ///< what ran elsewhere or slower than asked, and why
  Work work;                           ///< of one repetition
  Ceilings ceilings;                   ///< of the device, where one alone ran

  std::vector<double> speeds() const;  ///< tokens/s of each repetition
  double bytes_per_second() const;     ///< at the median repetition
  double flops_per_second() const;
};

/// Runs everything the options ask for, telling of each test in a log line.
Result<std::vector<Record>> run_all(const Options& options);

}  // namespace minfer::bench
