// The CUDA plugin's entry: its table, and the discovery of devices.
//
// The one exported symbol is pure: it touches neither the driver nor the runtime. Devices are found
// by device_enumerate; without a usable driver it lists one device that scores 0 and says why.
#include <algorithm>
#include <mutex>

#include "abi_read.h"
#include "device.h"
#include "dispatch.h"
#include "gates.h"
#include "kv_api.h"
#include "ops.h"
#include "plan.h"
#include "queue.h"
#include "uploader.h"
#include "weights.h"

#ifndef MINFER_CUDA_VERSION
#define MINFER_CUDA_VERSION "0.1.0"
#endif

namespace minfer_cuda {
namespace {

constexpr uint64_t kContextBytes = 600ull << 20;  // what a context and its code were seen to take

/// Texts of one device's entry; they live as long as the process, as the ABI asks.
struct DeviceTexts {
  std::string name, details, reason;
};

/// Enumeration is serialised by the core; the deque-like list keeps addresses stable.
std::vector<std::unique_ptr<DeviceTexts>>& device_texts() {
  static std::vector<std::unique_ptr<DeviceTexts>> texts;
  return texts;
}

std::string driver_version() {
  int version = 0;
  cudaDriverGetVersion(&version);
  return text(version / 1000, ".", version % 1000 / 10);
}

minfer_device_info describe(const Caps& caps) {
  auto texts = std::make_unique<DeviceTexts>();
  texts->name = caps.name;
  texts->details = text(caps.sms, " SMs, compute capability ", caps.cc / 10, ".", caps.cc % 10,
                        ", ", caps.memory_bytes >> 20, " MiB, driver for CUDA ", driver_version());
  texts->reason = device_problem(caps);
  minfer_device_info info{};
  info.kind = caps.integrated ? MINFER_DEVICE_INTEGRATED : MINFER_DEVICE_DISCRETE;
  info.score = !texts->reason.empty() ? 0 : caps.integrated ? 200 : 300;
  info.memory_total = caps.memory_bytes;
  info.memory_free = caps.memory_bytes;
  size_t free_bytes = 0, total = 0;
  const DeviceScope scope(caps.ordinal);
  if (info.score > 0 && cudaMemGetInfo(&free_bytes, &total) == cudaSuccess) {
    info.memory_free = free_bytes;
  }
  info.buffer_alignment = 256;
  info.name = texts->name.c_str();
  info.details = texts->details.c_str();
  info.reason = texts->reason.empty() ? nullptr : texts->reason.c_str();
  device_texts().push_back(std::move(texts));
  return info;
}

minfer_device_info unusable(const std::string& reason) {
  auto texts = std::make_unique<DeviceTexts>();
  texts->name = "NVIDIA GPU";
  texts->reason = reason;
  minfer_device_info info{};
  info.kind = MINFER_DEVICE_DISCRETE;
  info.buffer_alignment = 256;
  info.name = texts->name.c_str();
  info.details = texts->details.c_str();
  info.reason = texts->reason.c_str();
  device_texts().push_back(std::move(texts));
  return info;
}

minfer_status device_enumerate(minfer_device_info* out, uint32_t stride, uint32_t capacity,
                               uint32_t* n, minfer_error* error) {
  return guard(error, [&] {
    std::vector<minfer_device_info> infos;
    int count = 0;
    const std::string problem = driver_problem(count);
    if (!problem.empty()) {
      write_error(error, problem.c_str());
      infos.push_back(unusable(problem));
    }
    for (int i = 0; i < count; ++i) infos.push_back(describe(query_caps(i)));
    for (uint32_t i = 0; i < infos.size() && i < capacity; ++i) {
      char* to = reinterpret_cast<char*>(out) + uint64_t{i} * stride;
      write_struct(reinterpret_cast<minfer_device_info*>(to), infos[i]);
    }
    *n = static_cast<uint32_t>(infos.size());
  });
}

minfer_status device_open(uint32_t index, const minfer_gate_values* values, minfer_device** out,
                          minfer_error* error) {
  return guard(error, [&] {
    const Gates gates(values);
    if (gates.on(Gate::kDisable)) {
      throw PluginError(MINFER_UNSUPPORTED, "CUDA is turned off by MINFER_DISABLE_CUDA");
    }
    int count = 0;
    const std::string problem = driver_problem(count);
    if (!problem.empty()) throw PluginError(MINFER_UNSUPPORTED, problem);
    if (index >= static_cast<uint32_t>(count)) {
      throw PluginError(MINFER_INVALID, text("cuda:", index, ": ", count, " devices are present"));
    }
    const Caps caps = query_caps(static_cast<int>(index));
    const std::string unfit = device_problem(caps);
    if (!unfit.empty()) throw PluginError(MINFER_UNSUPPORTED, unfit);
    const DeviceScope scope(caps.ordinal);
    check(cudaFree(nullptr), "start the device");
    *out = new minfer_device(caps, gates);
    log_line(MINFER_LOG_DEBUG, text("cuda:", index, ": matmul by type and number of tokens:\n",
                                    describe_dispatch(caps, gates)));
  });
}

void device_close(minfer_device* device) {
  delete device;
}

minfer_status device_memory(minfer_device* device, minfer_memory* out, minfer_error* error) {
  return guard(error, [&] {
    const DeviceScope scope(device->caps().ordinal);
    size_t free_bytes = 0, total = 0;
    check(cudaMemGetInfo(&free_bytes, &total), "cudaMemGetInfo");
    minfer_memory memory{};
    memory.total = total;
    memory.free = free_bytes;
    memory.held = device->held();
    memory.peak = device->peak();
    memory.overhead = kContextBytes;
    write_struct(out, memory);
  });
}

const minfer_plugin& plugin_table() {
  static const minfer_plugin table = [] {
    minfer_plugin t{};
    t.struct_size = sizeof t;
    t.abi_minor = MINFER_ABI_MINOR;
    t.backend = "cuda";
    t.version = MINFER_CUDA_VERSION;
    t.description = "NVIDIA GPUs";
    t.n_gates = static_cast<uint32_t>(Gate::kCount);
    t.gate_stride = sizeof(minfer_gate);
    t.gates = gate_table();
    t.ops = op_table(t.n_ops);
    t.op_stride = sizeof(minfer_op_support);
    t.device_enumerate = device_enumerate;
    t.device_open = device_open;
    t.device_close = device_close;
    t.device_memory = device_memory;
    fill_weight_table(t);
    fill_kv_table(t);
    fill_queue_table(t);
    fill_plan_table(t);
    return t;
  }();
  return table;
}

}  // namespace
}  // namespace minfer_cuda

extern "C" MINFER_PLUGIN_EXPORT minfer_status minfer_plugin_query_v1(const minfer_host* host,
                                                                     const minfer_plugin** out,
                                                                     minfer_error* error) {
  using namespace minfer_cuda;
  return guard(error, [&] {
    if (!host || !MINFER_HAS(host, minfer_host, log)) {
      throw PluginError(
          MINFER_VERSION,
          text("cuda: the host's table has ", host ? host->struct_size : 0, " bytes; ABI ",
               MINFER_ABI_MAJOR, ".", MINFER_ABI_MINOR, " needs ", sizeof(minfer_host)));
    }
    host_table() = host;
    *out = &plugin_table();
  });
}
