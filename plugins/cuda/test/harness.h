// A small driver of the plugin through its ABI, for the CUDA tests: builds splits, runs them on the
// first GPU, and checks guard bands, poisoned outputs and relative errors.
//
// Buffers have a guard band on both sides and are filled with a NaN pattern before each run, so an
// output that was not written, or written past its end, fails the test. Not thread-safe.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

#include "../host/gates.h"
#include "minfer/plugin_abi.h"

namespace minfer_cuda::test {

/// The plugin and its first GPU; nullptr with a reason where there is none.
class Gpu {
 public:
  static Gpu* instance();
  static const std::string& reason();
  const minfer_plugin& table() const { return *table_; }
  minfer_device* device() const { return device_; }
  minfer_queue* queue() const { return queue_; }
  int compute_capability() const;  ///< 90 for 9.0

 private:
  const minfer_plugin* table_ = nullptr;
  minfer_device* device_ = nullptr;
  minfer_queue* queue_ = nullptr;
};

/// Takes all free memory of the first GPU while it lives. No other process may need some.
class FullDevice {
 public:
  FullDevice();
  ~FullDevice();
  FullDevice(const FullDevice&) = delete;
  FullDevice& operator=(const FullDevice&) = delete;

 private:
  std::vector<void*> taken_;
};

/// Skips the test, visibly, where there is no GPU.
#define MINFER_REQUIRE_GPU()                                                 \
  if (!::minfer_cuda::test::Gpu::instance()) {                               \
    GTEST_SKIP() << "no usable GPU: " << ::minfer_cuda::test::Gpu::reason(); \
  }

/// Fails the test when an ABI call did not succeed.
#define MINFER_OK_OR_FAIL(call)                                    \
  do {                                                             \
    minfer_error error_{};                                         \
    minfer_error* error = &error_;                                 \
    const minfer_status status_ = (call);                          \
    ASSERT_EQ(status_, MINFER_OK) << #call << ": " << error_.text; \
  } while (0)

using GateOverrides = std::map<Gate, int64_t>;
/// The defaults with these changes.
Gates gates_with(const GateOverrides& changes);

/// Random numbers; the seed is fresh for each process and printed by main.
std::mt19937_64& rng();
std::vector<float> random_floats(size_t n, float scale = 1.f);

/// Random blocks of a type, with scales that keep values near 1, as the file holds them.
std::vector<uint8_t> random_rows(uint32_t type, int64_t id, int64_t rows);
/// Their values.
std::vector<float> dequantize(uint32_t type, const std::vector<uint8_t>& data, int64_t n);

/// || a - b || / || b ||; infinite when a has a NaN.
double relative_error(const std::vector<float>& a, const std::vector<double>& b);
double relative_error(const std::vector<float>& a, const std::vector<float>& b);

/// A split under construction and its memory.
class Split {
 public:
  Split();
  ~Split();
  Split(const Split&) = delete;
  Split& operator=(const Split&) = delete;

  /// Valid counts and capacities; a split is built for the capacities.
  minfer_capacity capacity{};
  minfer_run_args args{};

  /// Adds a dynamic axis to the next tensor.
  Split& dynamic(uint32_t axis, uint32_t count);
  uint32_t input(uint32_t type, std::vector<int64_t> ne, const void* data);
  uint32_t floats(std::vector<int64_t> ne, const std::vector<float>& data);
  uint32_t ints(std::vector<int64_t> ne, const std::vector<int32_t>& data);
  uint32_t weight(uint32_t type, std::vector<int64_t> ne, std::vector<uint8_t> data, uint32_t uses);
  uint32_t plain(const std::vector<float>& data);
  uint32_t activation(std::vector<int64_t> ne, bool escapes, uint32_t type = MINFER_TYPE_F32);
  uint32_t view(uint32_t of, std::vector<int64_t> ne, std::vector<int64_t> nb, int64_t offset);
  uint32_t kv(const minfer_kv_desc& desc);
  void node(uint32_t op, std::vector<uint32_t> src, uint32_t dst, const void* params = nullptr,
            size_t params_size = 0);

  /// What the plugin is given; valid while nothing is added.
  minfer_split split();

  /// Imports weights, allocates and fills buffers; called once, before compile.
  void materialise();
  void compile(const GateOverrides& gates = {});
  void run();
  /// Binds again with a new generation, everything at another address.
  void rebind();
  /// compile + run into poisoned outputs, guards checked.
  void compute(const GateOverrides& gates = {});

  void write(uint32_t tensor, const void* data);
  std::vector<float> read(uint32_t tensor);
  std::vector<int32_t> read_ints(uint32_t tensor);
  /// Label of the kernel of a node.
  std::string kernel(uint32_t node);
  minfer_buffer* region(uint32_t kv_index) { return regions_[kv_index]; }
  const minfer_plan_info& info() const { return info_; }
  minfer_plan* plan() { return plan_; }

 private:
  struct Memory {
    minfer_buffer* buffer = nullptr;
    uint64_t bytes = 0;
  };
  uint32_t add(uint32_t type, uint32_t kind, std::vector<int64_t> ne, uint32_t flags);
  void poison_outputs();
  void check_guards();
  void bind();
  void release_plan();
  std::vector<minfer_tensor> tensors_;
  std::vector<minfer_node> nodes_;
  std::vector<std::vector<uint32_t>> sources_;
  std::vector<std::vector<uint8_t>> params_;
  std::vector<minfer_kv_desc> kv_;
  std::map<uint32_t, std::vector<uint8_t>> data_;  // inputs and weights
  std::map<uint32_t, uint32_t> uses_;
  std::map<uint32_t, Memory> memory_;  // inputs and escaping activations
  std::vector<minfer_buffer*> regions_;
  minfer_buffer* workspace_ = nullptr;
  minfer_weights* weights_ = nullptr;
  minfer_plan* plan_ = nullptr;
  minfer_plan_info info_{};
  uint64_t model_ = 0;
  uint64_t generation_ = 1;
  uint32_t next_axis_ = MINFER_NONE, next_count_ = 0;
  std::vector<int64_t> gate_values_;
};

}  // namespace minfer_cuda::test
