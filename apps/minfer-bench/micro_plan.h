// One operator as a plan of its own: compiled, bound to fresh buffers and run through the plugin
// ABI. Used by one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "minfer/plugin_host.h"

namespace minfer::bench {

/// y = op(w, x) on f32 rows: x has `rows` rows of `length`, y as many of `out_length`.
struct MicroShape {
  uint32_t op = MINFER_OP_SCALE;
  int64_t length = 0;
  int64_t out_length = 0;
  uint32_t rows = 0;
  std::optional<uint32_t> weight_type;  ///< of a matrix [length, out_length] before x
};

class MicroPlan {
 public:
  /// `weight`: bytes of the matrix, kept until the plan is gone. Fails as the device does, and with
  /// kUnsupported and its reason where it does not support the operator.
  static Result<std::unique_ptr<MicroPlan>> create(std::shared_ptr<Device> device,
                                                   const MicroShape& shape,
                                                   std::vector<uint8_t> weight);
  /// Seconds of one run over the first `rows` rows, `runs` of them queued one behind the other.
  Result<double> time(uint32_t rows, uint32_t runs);
  /// Label of the kernel.
  Result<std::string> kernel();

 private:
  MicroPlan(std::shared_ptr<Device> device, const MicroShape& shape, std::vector<uint8_t> weight);
  void describe();
  Result<void> import();
  Result<void> bind(const minfer_plan_info& info);

  std::shared_ptr<Device> device_;
  MicroShape shape_;
  std::vector<uint8_t> weight_;
  std::vector<minfer_tensor> tensors_;
  std::vector<uint32_t> sources_;
  minfer_scale_params scale_{};
  minfer_capacity capacity_{};
  minfer_node node_{};
  minfer_split split_{};
  WeightsHandle imported_;
  BufferHandle x_, y_, workspace_;
  PlanHandle plan_;
  QueueHandle queue_;
};

}  // namespace minfer::bench
