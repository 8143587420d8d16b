// The fixture of operator tests: each test runs once per instruction level that the plugin's gate
// MINFER_CPU_ISA can force. A plugin without that gate runs under "auto" only.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <memory>

#include "harness.h"
#include "minfer/quant_blocks.h"

namespace ops_test {

inline bool has_gate(const char* name) {
  for (uint32_t i = 0; i < plugin().n_gates; ++i) {
    const auto& gate = *reinterpret_cast<const minfer_gate*>(
        reinterpret_cast<const char*>(plugin().gates) + i * plugin().gate_stride);
    if (std::strcmp(gate.name, name) == 0) return true;
  }
  return false;
}

class OpTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string level = GetParam();
    if (level != "auto" && !has_gate("MINFER_CPU_ISA")) GTEST_SKIP() << "the plugin has no levels";
    // Devices start threads, so one per level serves all its tests.
    static std::map<std::string, std::unique_ptr<Device>> devices;
    auto& device = devices[level];
    try {
      if (device == nullptr) {
        device =
            std::make_unique<Device>(std::map<std::string, std::string>{{"MINFER_CPU_ISA", level}});
      }
    } catch (const Device::Unavailable& unavailable) {
      GTEST_SKIP() << unavailable.reason;
    }
    device_ = device.get();
    rng = test_rng();
  }

  Device& device() { return *device_; }
  /// True for kernels that keep f32 activations and exact weights.
  bool is_reference() const { return std::strcmp(GetParam(), "scalar") == 0; }

  std::mt19937_64 rng;

 private:
  Device* device_ = nullptr;
};

inline std::string level_name(const testing::TestParamInfo<const char*>& info) {
  return info.param;
}

#define OPS_ALL_LEVELS(Suite)                                                                  \
  INSTANTIATE_TEST_SUITE_P(Levels, Suite, testing::Values("auto", "scalar", "avx2", "avx512"), \
                           ops_test::level_name)

inline constexpr uint32_t kWeightTypes[] = {
    MINFER_TYPE_F32,  MINFER_TYPE_F16,    MINFER_TYPE_BF16,   MINFER_TYPE_Q4_0,
    MINFER_TYPE_Q4_1, MINFER_TYPE_Q5_0,   MINFER_TYPE_Q5_1,   MINFER_TYPE_Q8_0,
    MINFER_TYPE_Q2_K, MINFER_TYPE_Q3_K,   MINFER_TYPE_Q4_K,   MINFER_TYPE_Q5_K,
    MINFER_TYPE_Q6_K, MINFER_TYPE_IQ4_NL, MINFER_TYPE_IQ4_XS, MINFER_TYPE_MXFP4};

}  // namespace ops_test
