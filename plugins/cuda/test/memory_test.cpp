// Out of device memory: an error with the numbers, nothing held or released, and a device that goes
// on as before.
#include "../host/device.h"
#include "harness.h"

namespace minfer_cuda::test {
namespace {

constexpr int64_t kColumns = 4096, kRows = 16384;
constexpr uint64_t kSpare = 80u << 20;

/// One q8_0 matrix of 68 MiB, imported into a device of its own.
class ImportTest : public testing::Test {
 protected:
  void SetUp() override {
    MINFER_REQUIRE_GPU();
    MINFER_OK_OR_FAIL(plugin().device_open(0, nullptr, &device_, error));
    rows_ = std::vector<uint8_t>(kRows * kColumns / 32 * 34);
  }
  void TearDown() override {
    if (device_) plugin().device_close(device_);
  }
  static const minfer_plugin& plugin() { return Gpu::instance()->table(); }

  minfer_status import(minfer_weights** out, minfer_error* error) {
    minfer_weight w{};
    w.struct_size = sizeof w;
    w.type = MINFER_TYPE_Q8_0;
    w.uses = MINFER_USE_MATMUL;
    const int64_t shape[4] = {kColumns, kRows, 1, 1};
    std::copy(shape, shape + 4, w.ne);
    w.mapping = rows_.data();
    w.mapping_bytes = w.bytes = rows_.size();
    w.name = "big";
    minfer_weight_unit unit{};
    unit.struct_size = sizeof unit;
    unit.n_weights = 1;
    unit.weight_stride = sizeof w;
    unit.weights = &w;
    unit.model = 77;
    unit.release_ctx = this;
    unit.release = [](void* test, uint64_t) { ++static_cast<ImportTest*>(test)->released_; };
    return plugin().weights_import(device_, &unit, nullptr, out, error);
  }
  void expect_refusal() {
    minfer_weights* weights = nullptr;
    minfer_error error{};
    const uint64_t held = device_->held();
    EXPECT_EQ(import(&weights, &error), MINFER_OOM_DEVICE);
    EXPECT_EQ(weights, nullptr);
    EXPECT_NE(std::string(error.text).find("bytes are free"), std::string::npos) << error.text;
    EXPECT_EQ(released_, 0);
    EXPECT_EQ(device_->held(), held);
    EXPECT_EQ(device_->staging(), 0u);
  }
  void expect_success() {
    minfer_weights* weights = nullptr;
    MINFER_OK_OR_FAIL(import(&weights, error));
    EXPECT_EQ(released_, 1);
    EXPECT_EQ(device_->held(), rows_.size());
    plugin().weights_free(weights);
    EXPECT_EQ(device_->held(), 0u);
    EXPECT_GE(device_->peak(), rows_.size());
  }

  minfer_device* device_ = nullptr;
  std::vector<uint8_t> rows_;
  int released_ = 0;
};

TEST_F(ImportTest, NoRoomForTheWeights) {
  {
    const FullDevice full;
    expect_refusal();
  }
  expect_success();
}

TEST_F(ImportTest, RoomForTheWeightsButNotForTheStaging) {
  {
    auto spare = std::make_unique<DeviceMemory>(*device_, kSpare, "a test's reserve");
    const FullDevice full;
    spare.reset();
    expect_refusal();
  }
  expect_success();
}

}  // namespace
}  // namespace minfer_cuda::test
