// The plugin host: finds, checks and opens backends, and wraps a device's C table in owning C++
// objects that turn statuses into Errors.
//
// PluginHost is filled once at start-up by one thread. A Device and what it creates may be used
// from any thread under the ABI's rules (a Queue and its plans from one at a time). Handles keep
// their Device alive; plugins are never unloaded.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "minfer/gates.h"
#include "minfer/log.h"
#include "minfer/plugin_abi.h"
#include "minfer/result.h"

namespace minfer {

struct PluginInfo {
  std::filesystem::path path;
  std::string backend;
  std::string version;
  std::string description;
  uint32_t abi_minor = 0;
  std::string note;  ///< why it offers no device, or empty
};

/// A file that was looked at and not used, with the reason in full (the loader's own words
/// included).
struct RejectedPlugin {
  std::filesystem::path path;
  std::string reason;
};

struct DeviceInfo {
  std::string id;  ///< "cpu:0"
  std::string backend;
  uint32_t index = 0;  ///< within its plugin
  uint32_t kind = 0;   ///< MINFER_DEVICE_*
  uint32_t score = 0;  ///< 0: unusable, see reason
  bool host_accessible = false;
  std::string name;
  std::string details;
  std::string reason;
  uint64_t memory_total = 0;
  uint64_t memory_free = 0;
  uint64_t buffer_alignment = 64;
  uint64_t max_buffer_bytes = 0;
  size_t plugin = 0;  ///< index into PluginHost::plugins()
};

class Device;

/// Owns one opaque handle of a device and releases it with the device's own function.
template <class T>
class Handle {
 public:
  Handle() = default;
  Handle(std::shared_ptr<Device> device, T* raw, void (*release)(T*))
      : device_(std::move(device)), raw_(raw), release_(release) {}
  Handle(Handle&& o) noexcept { *this = std::move(o); }
  Handle& operator=(Handle&& o) noexcept {
    if (this != &o) {
      reset();
      device_ = std::move(o.device_);
      raw_ = std::exchange(o.raw_, nullptr);
      release_ = o.release_;
    }
    return *this;
  }
  ~Handle() { reset(); }
  void reset() {
    if (raw_) {
      try {
        release_(std::exchange(raw_, nullptr));
      } catch (...) {
        log(LogLevel::kError, "a plugin threw an exception while it released an object");
      }
    }
    device_.reset();
  }
  T* get() const { return raw_; }
  explicit operator bool() const { return raw_ != nullptr; }

 private:
  std::shared_ptr<Device> device_;
  T* raw_ = nullptr;
  void (*release_)(T*) = nullptr;
};

using BufferHandle = Handle<minfer_buffer>;
using QueueHandle = Handle<minfer_queue>;
using EventHandle = Handle<minfer_event>;
using WeightsHandle = Handle<minfer_weights>;
using PlanHandle = Handle<minfer_plan>;

/// What supports() answered, in C++.
struct Verdict {
  bool supported = false;
  uint32_t node = MINFER_NONE;
  uint32_t tensor = MINFER_NONE;
  std::string reason;
};

struct NodeReport {
  uint32_t fused_into = MINFER_NONE;
  std::string kernel;
  std::string why;
};

/// An open device. Every call checks what comes back (garbage verdicts, sizes and labels are
/// kPlugin errors that name the plugin), so callers may trust the values.
class Device : public std::enable_shared_from_this<Device> {
 public:
  virtual ~Device() = default;
  virtual const DeviceInfo& info() const = 0;
  virtual const minfer_plugin& table() const = 0;
  /// Does the plugin declare this operator at this revision?
  virtual bool has_op(uint32_t op, uint32_t revision) const = 0;
  /// Snapshot of the plugin's gates that calls below pass on.
  virtual void set_gates(std::vector<int64_t> values) = 0;
  virtual const minfer_gate_values* gates() const = 0;

  virtual Result<minfer_memory> memory() = 0;
  virtual Result<Verdict> supports(const minfer_split& split) = 0;
  virtual Result<uint64_t> weights_size(const minfer_weight_unit& unit) = 0;
  virtual Result<WeightsHandle> weights_import(const minfer_weight_unit& unit) = 0;
  virtual Result<std::vector<uint32_t>> kv_page_sizes(const minfer_kv_desc& kv) = 0;
  virtual Result<uint64_t> kv_page_bytes(const minfer_kv_desc& kv) = 0;
  virtual Result<void> kv_copy_pages(minfer_queue* queue, const minfer_kv_desc& kv,
                                     minfer_buffer* region, std::span<const uint32_t> from,
                                     std::span<const uint32_t> to) = 0;
  virtual Result<void> kv_export_page(minfer_queue* queue, const minfer_kv_desc& kv,
                                      minfer_buffer* region, uint32_t page, float* out) = 0;
  virtual Result<void> kv_import_page(minfer_queue* queue, const minfer_kv_desc& kv,
                                      minfer_buffer* region, uint32_t page, const float* in) = 0;
  virtual Result<BufferHandle> buffer_alloc(uint64_t bytes) = 0;
  virtual Result<void> buffer_write(minfer_queue* queue, minfer_buffer* buffer, uint64_t offset,
                                    const void* data, uint64_t bytes) = 0;
  virtual Result<void> buffer_read(minfer_queue* queue, minfer_buffer* buffer, uint64_t offset,
                                   void* data, uint64_t bytes) = 0;
  /// Pinned where the device has it, else plain aligned memory.
  virtual Result<std::shared_ptr<void>> host_alloc(uint64_t bytes) = 0;
  virtual Result<QueueHandle> queue_create() = 0;
  virtual Result<void> queue_wait(minfer_queue* queue) = 0;
  virtual Result<EventHandle> event_create() = 0;
  virtual Result<void> event_record(minfer_event* event, minfer_queue* queue) = 0;
  virtual Result<void> event_wait(minfer_event* event) = 0;
  virtual Result<bool> event_query(minfer_event* event) = 0;
  virtual Result<PlanHandle> plan_compile(const minfer_split& split, minfer_plan_info* info) = 0;
  virtual Result<void> plan_bind(minfer_plan* plan, const minfer_bindings& bindings) = 0;
  virtual Result<void> plan_run(minfer_plan* plan, minfer_queue* queue,
                                const minfer_run_args& args) = 0;
  virtual Result<NodeReport> plan_describe(minfer_plan* plan, uint32_t node) = 0;
  /// Empty when the plugin does not measure.
  virtual Result<std::vector<minfer_node_time>> plan_profile(minfer_plan* plan,
                                                             uint32_t n_nodes) = 0;
  virtual Result<void> queue_cancel(minfer_queue* queue) = 0;
};

class PluginHost {
 public:
  struct Options {
    std::vector<std::filesystem::path> files;  ///< absolute paths from --plugin or YAML; must load
    bool search = true;                        ///< also MINFER_PLUGIN_PATH and the default folders
    std::filesystem::path library_dir;         ///< <libdir> to use; empty: beside libminfer_core
  };

  /// Loads plugins in order of discovery: files, MINFER_PLUGIN_PATH (ignored when set-uid),
  /// <libdir>/minfer/plugins, ~/.local/lib/minfer/plugins. Fails only when one of `files` is
  /// rejected.
  static Result<std::unique_ptr<PluginHost>> load(const Options& options);
  virtual ~PluginHost() = default;

  virtual std::span<const PluginInfo> plugins() const = 0;
  virtual std::span<const RejectedPlugin> rejected() const = 0;

  /// The registry holding the core's gates and every loaded plugin's.
  virtual GateRegistry& gates() = 0;

  /// Asks every plugin for its devices (may start drivers). Call once, after gates are resolved.
  virtual Result<void> enumerate() = 0;
  virtual std::span<const DeviceInfo> devices() const = 0;
  /// The device called `id` ("cuda:1", or "cuda" for its best one), or kNotFound with what exists
  /// and why the backend has none.
  virtual Result<const DeviceInfo*> find_device(std::string_view id) const = 0;
  virtual Result<std::shared_ptr<Device>> open(const DeviceInfo& device) = 0;
};

}  // namespace minfer
