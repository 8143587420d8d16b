// What scheduler tests share: tiny models, a plugin host with the CPU plugin and the simulated
// devices, and a check after each test that the simulation saw no broken rule and got everything
// back.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "minfer/engine.h"
#include "plugin/control.h"

namespace minfer::testing {

/// Where the layers of a model are, by name of a test case.
struct Layout {
  std::string name;
  std::vector<std::string> devices;
  int32_t gpu_layers = -1;
  bool threaded = false;
  uint32_t refused_op = MINFER_NONE;  ///< by sim:0: units with it go to the next device
};

/// Every placement that scheduler tests run on. MINFER_TEST_DEVICE=cuda:0 adds the device, alone
/// and in front of the CPU; its plugin is the one beside the CPU's.
std::vector<Layout> all_layouts();
inline void PrintTo(const Layout& layout, std::ostream* out) {
  *out << layout.name;
}

class SimTest : public ::testing::Test {
 protected:
  SimTest();
  ~SimTest() override;
  void TearDown() override;

  /// A tiny f32 model: "llama" (2 layers, tied) or "gemma3" (7 layers, most with a window of 8).
  std::shared_ptr<const Model> tiny(const std::string& arch, bool tied = true);
  /// Small pages, f32 cache, room for 4 sequences of 128 positions; changed by the caller.
  static EngineOptions small_options();
  Result<std::unique_ptr<Engine>> open(const std::string& arch, const Layout& layout,
                                       EngineOptions options = small_options());
  Result<std::unique_ptr<Engine>> open(std::shared_ptr<const Model> model, const Layout& layout,
                                       EngineOptions options = small_options());
  std::unique_ptr<Engine> must_open(const std::string& arch, const Layout& layout,
                                    EngineOptions options = small_options());

  const minfer_sim::Control& sim() const { return *control_; }
  minfer_sim::Stats sim_stats() const;
  /// Log lines since the test began that contain `text`.
  std::vector<std::string> logged(const std::string& text) const;

  std::unique_ptr<PluginHost> host_;

 private:

  const minfer_sim::Control* control_ = nullptr;
  std::map<std::string, std::shared_ptr<const Model>> models_;
  mutable std::mutex log_mutex_;
  std::vector<std::string> log_;
};

/// Logits of the last of these tokens when they are all that an engine sees, on the CPU.
class Alone {
 public:
  explicit Alone(std::unique_ptr<Engine> engine) : engine_(std::move(engine)) {}
  std::vector<float> logits(const std::vector<TokenId>& tokens);

 private:
  std::unique_ptr<Engine> engine_;
};

/// ||a - b|| / ||b||; infinite when a holds a NaN.
double relative_error(std::span<const float> a, std::span<const float> b);

/// True when `token` is the largest logit, or as near to it as rounding can bring it.
bool is_arg_max(std::span<const float> logits, TokenId token);

}  // namespace minfer::testing
