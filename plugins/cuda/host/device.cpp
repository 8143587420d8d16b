// Device handling: discovery of the driver, capabilities, scoped selection, counted memory.
#include "device.h"

#include <dlfcn.h>

#include "uploader.h"
#include "weights.h"

namespace minfer_cuda {

#ifndef MINFER_CUDA_MIN_CC
#define MINFER_CUDA_MIN_CC 75
#endif

const minfer_host*& host_table() {
  static const minfer_host* table = nullptr;
  return table;
}

void log_line(int32_t level, const std::string& line) {
  const minfer_host* host = host_table();
  if (host && host->log) host->log(host->ctx, level, line.c_str());
}

DeviceScope::DeviceScope(int ordinal) noexcept {
  int current = -1;
  if (cudaGetDevice(&current) != cudaSuccess || current == ordinal) return;
  previous_ = current;
  cudaSetDevice(ordinal);
}

DeviceScope::~DeviceScope() {
  if (previous_ >= 0) cudaSetDevice(previous_);
}

DeviceMemory::DeviceMemory(Device& device, uint64_t bytes, const char* purpose, Account account)
    : device_(&device), bytes_(bytes), account_(account) {
  if (bytes == 0) return;
  const DeviceScope scope(device.caps().ordinal);
  const cudaError_t error = cudaMalloc(reinterpret_cast<void**>(&data_), bytes);
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    size_t free_bytes = 0, total = 0;
    if (cudaMemGetInfo(&free_bytes, &total) != cudaSuccess) cudaGetLastError();
    data_ = nullptr;
    throw PluginError(MINFER_OOM_DEVICE,
                      text("cuda:", device.caps().ordinal, ": ", bytes, " bytes for ", purpose,
                           " do not fit: ", free_bytes, " of ", total, " bytes are free, ",
                           device.held() + device.staging(), " held by this process's plugin"));
  }
  check(error, "cudaMalloc");
  device.count(static_cast<int64_t>(bytes), account);
}

DeviceMemory::~DeviceMemory() {
  if (!data_) return;
  const DeviceScope scope(device_->caps().ordinal);
  cudaFree(data_);
  cudaGetLastError();
  device_->count(-static_cast<int64_t>(bytes_), account_);
}

Device::Device(const Caps& caps, const Gates& gates)
    : caps_(caps),
      weights_(std::make_unique<WeightRegistry>()),
      uploader_(std::make_unique<Uploader>(*this)) {
  static_cast<void>(gates);
}

Device::~Device() = default;

void Device::count(int64_t bytes, Account account) {
  (account == Account::kHeld ? held_ : staging_) += static_cast<uint64_t>(bytes);
  const uint64_t now = held_ + staging_;
  uint64_t peak = peak_;
  while (now > peak && !peak_.compare_exchange_weak(peak, now)) {
  }
}

void Device::disable_graphs(const std::string& reason) {
  if (graphs_disabled_.exchange(true)) return;
  log_line(MINFER_LOG_WARN,
           text("cuda:", caps_.ordinal, ": CUDA graphs are off for this session: ", reason));
}

Caps query_caps(int ordinal) {
  cudaDeviceProp prop{};
  check(cudaGetDeviceProperties(&prop, ordinal), "cudaGetDeviceProperties");
  Caps caps;
  caps.ordinal = ordinal;
  caps.name = prop.name;
  caps.cc = prop.major * 10 + prop.minor;
  caps.sms = prop.multiProcessorCount;
  caps.shared_bytes = prop.sharedMemPerBlockOptin;
  caps.l2_bytes = static_cast<uint64_t>(prop.l2CacheSize);
  caps.memory_bytes = prop.totalGlobalMem;
  caps.integrated = prop.integrated != 0;
  return caps;
}

std::string driver_problem(int& count) {
  count = 0;
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) return text("no NVIDIA driver: ", dlerror());
  dlclose(library);
  int driver = 0, runtime = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  const cudaError_t error = cudaGetDeviceCount(&count);
  cudaGetLastError();
  const auto version = [](int v) { return text(v / 1000, ".", v % 1000 / 10); };
  if (error == cudaErrorInsufficientDriver) {
    return text("NVIDIA driver too old: it supports CUDA ", version(driver),
                ", this plugin needs CUDA ", version(runtime));
  }
  if (error == cudaErrorNoDevice || (error == cudaSuccess && count == 0)) {
    count = 0;
    return text("no NVIDIA GPU: the driver (CUDA ", version(driver), ") lists no device");
  }
  if (error != cudaSuccess) {
    count = 0;
    return text("NVIDIA driver: ", cudaGetErrorString(error));
  }
  return {};
}

std::string device_problem(const Caps& caps) {
  if (caps.cc >= MINFER_CUDA_MIN_CC) return {};
  return text("compute capability ", caps.cc / 10, ".", caps.cc % 10,
              " is below what this build has kernels for, ", MINFER_CUDA_MIN_CC / 10, ".",
              MINFER_CUDA_MIN_CC % 10);
}

}  // namespace minfer_cuda
