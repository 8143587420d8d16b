// The device layer: discovery, memory limits, copies, page copies, timing.
#include <cstring>

#include "harness.h"

extern "C" minfer_status minfer_plugin_query_v1(const minfer_host* host, const minfer_plugin** out,
                                                minfer_error* error);

namespace minfer_cuda::test {
namespace {

TEST(DeviceTest, EnumerationAlwaysAnswers) {
  // The plugin keeps the table, as it may until the process ends.
  static minfer_host host{};
  host.struct_size = sizeof host;
  host.log = [](void*, int32_t, const char*) {};
  const minfer_plugin* table = nullptr;
  minfer_error error{};
  ASSERT_EQ(minfer_plugin_query_v1(&host, &table, &error), MINFER_OK) << error.text;
  minfer_device_info info[8] = {};
  for (minfer_device_info& i : info) i.struct_size = sizeof i;
  uint32_t n = 0;
  ASSERT_EQ(table->device_enumerate(info, sizeof info[0], 8, &n, &error), MINFER_OK) << error.text;
  ASSERT_GE(n, 1u);
  if (info[0].score == 0) {
    ASSERT_NE(info[0].reason, nullptr);
    EXPECT_GT(std::strlen(info[0].reason), 10u);
    minfer_device* device = nullptr;
    EXPECT_EQ(table->device_open(0, nullptr, &device, &error), MINFER_UNSUPPORTED);
    EXPECT_EQ(device, nullptr);
  } else {
    EXPECT_GE(info[0].score, 200u);
    EXPECT_GT(info[0].memory_total, 0u);
  }
}

TEST(DeviceTest, AHostThatIsTooOldIsRefused) {
  minfer_host host{};
  host.struct_size = 8;
  const minfer_plugin* table = nullptr;
  minfer_error error{};
  EXPECT_EQ(minfer_plugin_query_v1(&host, &table, &error), MINFER_VERSION);
  EXPECT_EQ(table, nullptr);
  EXPECT_NE(std::string(error.text).find("8 bytes"), std::string::npos) << error.text;
}

TEST(DeviceTest, OutOfMemoryIsAnErrorAndTheDeviceLives) {
  MINFER_REQUIRE_GPU();
  const minfer_plugin& p = Gpu::instance()->table();
  minfer_error failure{};
  minfer_buffer* buffer = nullptr;
  const uint64_t huge = uint64_t{1} << 46;
  EXPECT_EQ(p.buffer_alloc(Gpu::instance()->device(), huge, &buffer, &failure), MINFER_OOM_DEVICE);
  EXPECT_EQ(buffer, nullptr);
  EXPECT_NE(std::string(failure.text).find(std::to_string(huge)), std::string::npos)
      << failure.text;
  MINFER_OK_OR_FAIL(p.buffer_alloc(Gpu::instance()->device(), 1 << 20, &buffer, error));
  const std::vector<float> data = random_floats(1 << 18);
  std::vector<float> back(data.size());
  MINFER_OK_OR_FAIL(
      p.buffer_write(Gpu::instance()->queue(), buffer, 0, data.data(), 1 << 20, error));
  MINFER_OK_OR_FAIL(
      p.buffer_read(Gpu::instance()->queue(), buffer, 0, back.data(), 1 << 20, error));
  MINFER_OK_OR_FAIL(p.queue_wait(Gpu::instance()->queue(), error));
  EXPECT_EQ(back, data);
  EXPECT_EQ(p.buffer_write(Gpu::instance()->queue(), buffer, 1 << 20, data.data(), 4, &failure),
            MINFER_INVALID);
  p.buffer_free(buffer);
}

TEST(DeviceTest, MemoryIsCounted) {
  MINFER_REQUIRE_GPU();
  const minfer_plugin& p = Gpu::instance()->table();
  minfer_memory before{}, during{}, after{};
  before.struct_size = during.struct_size = after.struct_size = sizeof before;
  minfer_buffer* buffer = nullptr;
  MINFER_OK_OR_FAIL(p.device_memory(Gpu::instance()->device(), &before, error));
  MINFER_OK_OR_FAIL(p.buffer_alloc(Gpu::instance()->device(), 64 << 20, &buffer, error));
  MINFER_OK_OR_FAIL(p.device_memory(Gpu::instance()->device(), &during, error));
  p.buffer_free(buffer);
  MINFER_OK_OR_FAIL(p.device_memory(Gpu::instance()->device(), &after, error));
  EXPECT_EQ(during.held, before.held + (64 << 20));
  EXPECT_GE(during.peak, during.held);
  EXPECT_EQ(after.held, before.held);
}

TEST(DeviceTest, PagesCopyWhole) {
  MINFER_REQUIRE_GPU();
  const minfer_plugin& p = Gpu::instance()->table();
  for (uint32_t type : {MINFER_TYPE_F32, MINFER_TYPE_F16, MINFER_TYPE_Q8_0}) {
    minfer_kv_desc kv{};
    kv.struct_size = sizeof kv;
    kv.type = type;
    kv.n_head_kv = 3;
    kv.head_dim_k = 64;
    kv.head_dim_v = 96;
    kv.page_tokens = 32;
    kv.n_pages = 4;
    uint64_t bytes = 0;
    MINFER_OK_OR_FAIL(p.kv_page_bytes(Gpu::instance()->device(), &kv, &bytes, error));
    minfer_buffer* region = nullptr;
    MINFER_OK_OR_FAIL(p.buffer_alloc(Gpu::instance()->device(), bytes * 4, &region, error));
    const std::vector<float> in = random_floats(3 * 32 * (64 + 96));
    std::vector<float> once(in.size()), copied(in.size());
    MINFER_OK_OR_FAIL(p.kv_import_page(Gpu::instance()->queue(), &kv, region, 1, in.data(), error));
    const uint32_t from = 1, to = 3;
    MINFER_OK_OR_FAIL(p.kv_copy_pages(Gpu::instance()->queue(), &kv, region, &from, &to, 1, error));
    MINFER_OK_OR_FAIL(
        p.kv_export_page(Gpu::instance()->queue(), &kv, region, 1, once.data(), error));
    MINFER_OK_OR_FAIL(
        p.kv_export_page(Gpu::instance()->queue(), &kv, region, 3, copied.data(), error));
    EXPECT_EQ(once, copied);
    EXPECT_LT(relative_error(once, in), type == MINFER_TYPE_Q8_0 ? 1e-2 : 1e-3);
    const uint32_t outside = 4;
    minfer_error failure{};
    EXPECT_EQ(p.kv_copy_pages(Gpu::instance()->queue(), &kv, region, &from, &outside, 1, &failure),
              MINFER_INVALID);
    p.buffer_free(region);
  }
}

}  // namespace
}  // namespace minfer_cuda::test
