// Device enumeration: what a plugin offers, checked entry by entry.
#include <fmt/format.h>

#include <bit>
#include <vector>

#include "plugin/abi_text.h"
#include "plugin/plugin.h"

namespace minfer {
namespace {

constexpr uint32_t kMaxDevices = 256;
constexpr uint32_t kMaxScore = 1000;
constexpr uint64_t kMaxAlignment = uint64_t{1} << 24;
constexpr size_t kTextBytes = 512;

Result<DeviceInfo> check_entry(const Plugin& plugin, const minfer_device_info& entry,
                               uint32_t index) {
  const std::string id = fmt::format("{}:{}", plugin.info.backend, index);
  const auto bad = [&](const std::string& found) {
    return contract_error(id, "device_enumerate", found);
  };
  DeviceInfo info;
  info.id = id;
  info.backend = plugin.info.backend;
  info.index = index;
  info.kind = entry.kind;
  info.score = entry.score;
  const auto name = checked_text(entry.name, kTextBytes);
  if (!name || name->empty()) return bad("the device has no readable name");
  info.name = *name;
  info.details = clean_text(entry.details, kTextBytes);
  info.reason = clean_text(entry.reason, kTextBytes);
  // Kinds and flags may gain values; those of our own minor may not.
  if (entry.kind > MINFER_DEVICE_OTHER) {
    if (plugin.info.abi_minor <= MINFER_ABI_MINOR) return bad(fmt::format("kind = {}", entry.kind));
    info.kind = MINFER_DEVICE_OTHER;
  }
  if (entry.score > kMaxScore)
    return bad(fmt::format("score = {}; 0 to {} is expected", entry.score, kMaxScore));
  if (entry.score == 0) {
    if (info.reason.empty()) info.reason = "the plugin gave no reason";
    return info;  // never opened, so the rest is not read
  }
  if (entry.host_accessible > 1)
    return bad(fmt::format("host_accessible = {}; 0 or 1 is expected", entry.host_accessible));
  if (!std::has_single_bit(entry.buffer_alignment) || entry.buffer_alignment > kMaxAlignment)
    return bad(fmt::format("buffer_alignment = {}; a power of two up to {} is expected",
                           entry.buffer_alignment, kMaxAlignment));
  if (entry.memory_total != 0 && entry.memory_free > entry.memory_total)
    return bad(fmt::format("memory_free = {} exceeds memory_total = {}", entry.memory_free,
                           entry.memory_total));
  info.host_accessible = entry.host_accessible == 1;
  info.memory_total = entry.memory_total;
  info.memory_free = entry.memory_free;
  info.buffer_alignment = entry.buffer_alignment;
  info.max_buffer_bytes = entry.max_buffer_bytes;
  return info;
}

}  // namespace

Result<std::vector<DeviceInfo>> enumerate_devices(const Plugin& plugin, std::string& note) {
  const std::string& where = plugin.info.backend;
  std::vector<minfer_device_info> entries(8);
  uint32_t count = 0;
  minfer_error error;
  for (;;) {
    for (minfer_device_info& entry : entries) {
      entry = {};
      entry.struct_size = sizeof(minfer_device_info);
    }
    const auto capacity = static_cast<uint32_t>(entries.size());
    count = MINFER_NONE;
    const minfer_status status = guarded_call(error, [&](minfer_error* e) {
      return plugin.table.device_enumerate(entries.data(), sizeof(minfer_device_info), capacity,
                                           &count, e);
    });
    if (status != MINFER_OK)
      return tl::make_unexpected(status_error(status, error, where, "device_enumerate"));
    if (count > kMaxDevices)
      return contract_error(
          where, "device_enumerate",
          count == MINFER_NONE ? "it returned no count" : fmt::format("n = {} devices", count));
    if (count <= capacity) break;
    entries.resize(count);
  }
  std::vector<DeviceInfo> devices;
  for (uint32_t i = 0; i < count; ++i) {
    MINFER_ASSIGN(DeviceInfo info, check_entry(plugin, entries[i], i));
    devices.push_back(std::move(info));
  }
  if (devices.empty()) {
    note = clean_text(error.text, sizeof(error.text));
    if (note.empty()) note = "the plugin gave no reason";
  }
  return devices;
}

}  // namespace minfer
