#include "engine/device_choice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "minfer/log.h"

namespace minfer {
namespace {

/// The page size that a device with a free choice gets: small enough to waste little of a short
/// sequence, large enough that a page is many cache lines of every head.
constexpr uint32_t kPreferredPageTokens = 64;

Result<const DeviceInfo*> usable(const PluginHost& host, const std::string& name) {
  MINFER_ASSIGN(const DeviceInfo* info, host.find_device(name));
  if (info->score == 0)
    return fail(ErrorCode::kUnsupported,
                fmt::format("the device cannot be used: {}",
                            info->reason.empty() ? "its plugin gives no reason" : info->reason),
                info->id);
  return info;
}

Result<std::vector<const DeviceInfo*>> named_devices(const PluginHost& host,
                                                     const EngineOptions& options) {
  std::vector<std::string> names = options.devices;
  if (options.gpu_layers >= 0 && names.size() == 1 && !names[0].starts_with("cpu"))
    names.push_back("cpu");
  std::vector<const DeviceInfo*> chosen;
  for (const std::string& name : names) {
    auto info = usable(host, name);
    if (info) {
      if (std::find(chosen.begin(), chosen.end(), *info) == chosen.end()) chosen.push_back(*info);
    } else if (options.strict_devices) {
      return tl::make_unexpected(std::move(info).error());
    } else {
      log(LogLevel::kInfo, fmt::format("passing over {}: {}", name, info.error().message()));
    }
  }
  return chosen;
}

std::vector<const DeviceInfo*> all_devices(const PluginHost& host) {
  std::vector<const DeviceInfo*> chosen;
  for (const DeviceInfo& info : host.devices()) {
    if (info.score > 0) {
      chosen.push_back(&info);
    } else {
      log(LogLevel::kInfo, fmt::format("passing over {}: {}", info.id, info.reason));
    }
  }
  std::stable_sort(chosen.begin(), chosen.end(),
                   [](const DeviceInfo* a, const DeviceInfo* b) { return a->score > b->score; });
  return chosen;
}

/// ": FILE: reason; DEVICE: reason", for whoever is left without any device.
std::string why_none(const PluginHost& host) {
  std::vector<std::string> reasons;
  for (const RejectedPlugin& file : host.rejected())
    reasons.push_back(fmt::format("{}: {}", file.path.string(), file.reason));
  for (const PluginInfo& plugin : host.plugins())
    if (!plugin.note.empty()) reasons.push_back(fmt::format("{}: {}", plugin.backend, plugin.note));
  for (const DeviceInfo& device : host.devices())
    if (!device.reason.empty()) reasons.push_back(fmt::format("{}: {}", device.id, device.reason));
  if (reasons.empty()) return host.plugins().empty() ? ": no plugin was found" : "";
  return fmt::format(": {}", fmt::join(reasons, "; "));
}

}  // namespace

Result<std::vector<std::shared_ptr<Device>>> choose_devices(PluginHost& host,
                                                            const EngineOptions& options) {
  std::vector<const DeviceInfo*> chosen;
  if (options.devices.empty()) {
    chosen = all_devices(host);
  } else {
    MINFER_ASSIGN(chosen, named_devices(host, options));
  }
  std::vector<std::shared_ptr<Device>> devices;
  for (const DeviceInfo* info : chosen) {
    auto device = host.open(*info);
    if (device) {
      devices.push_back(std::move(*device));
    } else if (!options.devices.empty() && options.strict_devices) {
      return tl::make_unexpected(std::move(device).error());
    } else {
      log(LogLevel::kInfo, fmt::format("passing over {}: {}", info->id, device.error().message()));
    }
  }
  if (devices.empty())
    return fail(ErrorCode::kNotFound, "no usable device" + why_none(host), {},
                "--list-devices shows every plugin, device and reason");
  return devices;
}

Result<uint32_t> choose_page_tokens(std::span<const std::shared_ptr<Device>> devices,
                                    std::span<const minfer_kv_desc> layers, uint32_t wanted) {
  if (layers.empty()) return wanted > 0 ? wanted : kPreferredPageTokens;
  std::vector<uint32_t> common;
  std::string seen;
  bool first = true;
  for (const auto& device : devices) {
    for (const minfer_kv_desc& layer : layers) {
      auto sizes = device->kv_page_sizes(layer);
      if (!sizes) {  // placement will find out and say so
        log(LogLevel::kDebug, sizes.error().message());
        break;
      }
      if (first) {
        common = *sizes;
      } else {
        std::erase_if(common, [&](uint32_t size) {
          return std::find(sizes->begin(), sizes->end(), size) == sizes->end();
        });
      }
      if (&layer == &layers.front())
        seen += fmt::format("; {} takes {}", device->info().id, fmt::join(*sizes, ", "));
      first = false;
    }
  }
  if (first) return wanted > 0 ? wanted : kPreferredPageTokens;
  if (common.empty())
    return fail(ErrorCode::kUnsupported,
                fmt::format("the devices have no KV page size in common{}", seen), {},
                "name fewer devices");
  if (wanted > 0) {
    if (std::find(common.begin(), common.end(), wanted) != common.end()) return wanted;
    return fail(
        ErrorCode::kUnsupported,
        fmt::format("KV pages of {} tokens are not what every device can use{}", wanted, seen), {},
        "choose a size that all of them list, or 0");
  }
  const auto above = std::upper_bound(common.begin(), common.end(), kPreferredPageTokens);
  return above == common.begin() ? common.front() : *(above - 1);
}

}  // namespace minfer
