// An open device over a plugin's C table. Implements Device; see its contract for thread rules.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "minfer/plugin_host.h"
#include "plugin/plugin.h"

namespace minfer {

class PluginDevice final : public Device {
 public:
  PluginDevice(std::shared_ptr<const Plugin> plugin, DeviceInfo info, std::vector<int64_t> gates);
  ~PluginDevice() override;
  /// Calls device_open; the object is unusable until it succeeded.
  Result<void> open();

  const DeviceInfo& info() const override { return info_; }
  const minfer_plugin& table() const override { return table_; }
  bool has_op(uint32_t op, uint32_t revision) const override;
  void set_gates(std::vector<int64_t> values) override;
  const minfer_gate_values* gates() const override { return &gates_; }

  Result<minfer_memory> memory() override;
  Result<Verdict> supports(const minfer_split& split) override;
  Result<uint64_t> weights_size(const minfer_weight_unit& unit) override;
  Result<WeightsHandle> weights_import(const minfer_weight_unit& unit) override;
  Result<std::vector<uint32_t>> kv_page_sizes(const minfer_kv_desc& kv) override;
  Result<uint64_t> kv_page_bytes(const minfer_kv_desc& kv) override;
  Result<void> kv_copy_pages(minfer_queue* queue, const minfer_kv_desc& kv, minfer_buffer* region,
                             std::span<const uint32_t> from, std::span<const uint32_t> to) override;
  Result<void> kv_export_page(minfer_queue* queue, const minfer_kv_desc& kv, minfer_buffer* region,
                              uint32_t page, float* out) override;
  Result<void> kv_import_page(minfer_queue* queue, const minfer_kv_desc& kv, minfer_buffer* region,
                              uint32_t page, const float* in) override;
  Result<BufferHandle> buffer_alloc(uint64_t bytes) override;
  Result<void> buffer_write(minfer_queue* queue, minfer_buffer* buffer, uint64_t offset,
                            const void* data, uint64_t bytes) override;
  Result<void> buffer_read(minfer_queue* queue, minfer_buffer* buffer, uint64_t offset, void* data,
                           uint64_t bytes) override;
  Result<std::shared_ptr<void>> host_alloc(uint64_t bytes) override;
  Result<QueueHandle> queue_create() override;
  Result<void> queue_wait(minfer_queue* queue) override;
  Result<EventHandle> event_create() override;
  Result<void> event_record(minfer_event* event, minfer_queue* queue) override;
  Result<void> event_wait(minfer_event* event) override;
  Result<bool> event_query(minfer_event* event) override;
  Result<PlanHandle> plan_compile(const minfer_split& split, minfer_plan_info* info) override;
  Result<void> plan_bind(minfer_plan* plan, const minfer_bindings& bindings) override;
  Result<void> plan_run(minfer_plan* plan, minfer_queue* queue,
                        const minfer_run_args& args) override;
  Result<NodeReport> plan_describe(minfer_plan* plan, uint32_t node) override;
  Result<std::vector<minfer_node_time>> plan_profile(minfer_plan* plan, uint32_t n_nodes) override;
  Result<void> queue_cancel(minfer_queue* queue) override;

 private:
  /// A call whose only result is its status.
  template <class Function>
  Result<void> call(const char* function, Function&& f) {
    return checked_call(info_.id, function, std::forward<Function>(f));
  }
  /// A call that creates an object; success without one breaks the contract.
  template <class T, class Function>
  Result<Handle<T>> create(const char* function, void (*release)(T*), Function&& f) {
    T* raw = nullptr;
    MINFER_TRY(call(function, [&](minfer_error* e) { return f(&raw, e); }));
    if (!raw) return contract_error(info_.id, function, "it succeeded and returned NULL");
    return Handle<T>(shared_from_this(), raw, release);
  }
  tl::unexpected<Error> broken(const char* function, const std::string& found) const {
    return contract_error(info_.id, function, found);
  }
  tl::unexpected<Error> absent(const char* function) const {
    return fail(ErrorCode::kUnsupported, fmt::format("the plugin does not offer {}", function),
                info_.id);
  }

  const std::shared_ptr<const Plugin> plugin_;
  const minfer_plugin& table_;
  const DeviceInfo info_;
  std::vector<int64_t> gate_values_;
  minfer_gate_values gates_{};
  minfer_device* raw_ = nullptr;

  // Node counts of compiled plans, so that plan_describe can be checked. An address that the plugin
  // reuses is overwritten, which bounds the map by the plans that were alive at once.
  std::mutex mutex_;
  std::unordered_map<minfer_plan*, uint32_t> plan_nodes_;
};

}  // namespace minfer
