// A CUDA device as the plugin holds it: capabilities, memory accounting, weights, upload machinery.
//
// There is no global state besides the host table: everything a device needs hangs off its Device,
// so that devices are independent. Thread-safety: Device's own methods may be called from any
// thread.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "error.h"
#include "gates.h"

namespace minfer_cuda {

class WeightRegistry;
class Uploader;

/// The host's table; set once by query, before any other call.
const minfer_host*& host_table();
void log_line(int32_t level, const std::string& line);

/// What decides kernels, as the driver reports it.
struct Caps {
  int ordinal = 0;
  std::string name;
  int cc = 0;  ///< 90 for compute capability 9.0
  int sms = 0;
  uint64_t shared_bytes = 0;  ///< dynamic shared memory that a block may ask for
  uint64_t l2_bytes = 0;
  uint64_t memory_bytes = 0;
  bool integrated = false;
};

/// Makes a device current for a scope and restores the caller's. Never throws: where the device
/// cannot be made current, the calls in the scope report it.
class DeviceScope {
 public:
  explicit DeviceScope(int ordinal) noexcept;
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  int previous_ = -1;
};

class Device;

/// How memory is accounted for: as held, or, where it is freed once loading is over, in the peak
/// alone.
enum class Account { kHeld, kStaging };

/// Device memory that knows its device and is counted there.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  /// Throws MINFER_OOM_DEVICE with the numbers; the device stays usable.
  DeviceMemory(Device& device, uint64_t bytes, const char* purpose,
               Account account = Account::kHeld);
  DeviceMemory(DeviceMemory&& other) noexcept { swap(other); }
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    swap(other);
    return *this;
  }
  ~DeviceMemory();
  char* get() const { return data_; }
  uint64_t bytes() const { return bytes_; }

 private:
  void swap(DeviceMemory& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(account_, other.account_);
  }
  Device* device_ = nullptr;
  char* data_ = nullptr;
  uint64_t bytes_ = 0;
  Account account_ = Account::kHeld;
};

class Device {
 public:
  Device(const Caps& caps, const Gates& gates);
  ~Device();
  const Caps& caps() const { return caps_; }
  WeightRegistry& weights() { return *weights_; }
  Uploader& uploader() { return *uploader_; }

  void count(int64_t bytes, Account account);
  uint64_t held() const { return held_; }
  uint64_t staging() const { return staging_; }
  /// Largest sum of held and staging memory so far.
  uint64_t peak() const { return peak_; }

  /// Graph replay failed once: direct launches from then on, said once.
  bool graphs_disabled() const { return graphs_disabled_; }
  void disable_graphs(const std::string& reason);

 private:
  Caps caps_;
  std::atomic<uint64_t> held_{0};
  std::atomic<uint64_t> staging_{0};
  std::atomic<uint64_t> peak_{0};
  std::atomic<bool> graphs_disabled_{false};
  std::unique_ptr<WeightRegistry> weights_;
  std::unique_ptr<Uploader> uploader_;
};

/// Fills caps of a device; throws on driver errors.
Caps query_caps(int ordinal);

/// Why no CUDA device can be used here, or an empty text: no driver, too old a driver, no device.
std::string driver_problem(int& count);

/// Why this device cannot be used, or an empty text.
std::string device_problem(const Caps& caps);

}  // namespace minfer_cuda

struct minfer_device : minfer_cuda::Device {
  using minfer_cuda::Device::Device;
};
