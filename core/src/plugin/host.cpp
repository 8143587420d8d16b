// PluginHost: loads what discovery finds, keeps the registry of gates, lists and opens devices.
#include "minfer/plugin_host.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "minfer/log.h"
#include "minfer/nearest.h"
#include "plugin/discovery.h"
#include "plugin/file_check.h"
#include "plugin/plugin.h"

namespace minfer {
namespace {

namespace fs = std::filesystem;

class PluginHostImpl final : public PluginHost {
 public:
  Result<void> load_all(const Options& options);

  std::span<const PluginInfo> plugins() const override { return infos_; }
  std::span<const RejectedPlugin> rejected() const override { return rejected_; }
  GateRegistry& gates() override { return gates_; }
  Result<void> enumerate() override;
  std::span<const DeviceInfo> devices() const override { return devices_; }
  Result<const DeviceInfo*> find_device(std::string_view id) const override;
  Result<std::shared_ptr<Device>> open(const DeviceInfo& device) override;

 private:
  Result<void> load_one(const PluginCandidate& candidate);
  Error no_such_device(std::string_view id) const;
  std::string why_backend_is_absent(const std::string& backend) const;

  GateRegistry gates_;
  std::vector<std::shared_ptr<const Plugin>> plugins_;
  std::vector<PluginInfo> infos_;
  std::vector<std::pair<dev_t, ino_t>> seen_;
  std::vector<RejectedPlugin> rejected_;
  std::vector<std::string> searched_;  ///< folders
  std::vector<DeviceInfo> devices_;
  std::map<std::string, Error> failures_;  ///< backends whose enumeration failed
};

Result<void> PluginHostImpl::load_all(const Options& options) {
  MINFER_TRY(gates_.declare("core", core_gates()));
  for (const std::filesystem::path& folder : plugin_folders(options))
    searched_.push_back(folder.string());
  for (const PluginCandidate& candidate : find_plugins(options, rejected_)) {
    auto loaded = load_one(candidate);
    if (loaded) continue;
    rejected_.push_back({candidate.path, loaded.error().message()});
    log(LogLevel::kDebug,
        fmt::format("plugin {}: {}", candidate.path.string(), loaded.error().message()));
    if (!candidate.required) continue;
    Error error = loaded.error();
    error.where = fmt::format("plugin {}", candidate.path.string());
    return tl::make_unexpected(std::move(error));
  }
  return {};
}

Result<void> PluginHostImpl::load_one(const PluginCandidate& candidate) {
  if (!candidate.path.is_absolute())
    return fail(ErrorCode::kPlugin, "is not an absolute path", {},
                fmt::format("write {}", fs::absolute(candidate.path).lexically_normal().string()));
  MINFER_ASSIGN(const PluginFile file, check_plugin_file(candidate.path));
  // The same file by another way (a link, or a folder listed twice) is no conflict.
  if (std::find(seen_.begin(), seen_.end(), file.identity) != seen_.end()) return {};
  seen_.push_back(file.identity);
  MINFER_ASSIGN(std::shared_ptr<Plugin> plugin, load_plugin(file.path));
  plugin->info.path = candidate.path;
  for (const PluginInfo& other : infos_)
    if (other.backend == plugin->info.backend)
      return fail(ErrorCode::kPlugin,
                  fmt::format("backend '{}' is shadowed by {}, which comes first", other.backend,
                              other.path.string()));
  MINFER_TRY(gates_.declare(plugin->info.backend, plugin->gates));
  infos_.push_back(plugin->info);
  plugins_.push_back(std::move(plugin));
  return {};
}

Result<void> PluginHostImpl::enumerate() {
  devices_.clear();
  failures_.clear();
  for (size_t i = 0; i < plugins_.size(); ++i) {
    auto found = enumerate_devices(*plugins_[i], infos_[i].note);
    if (!found) {
      // One bad plugin must not take the other backends away.
      infos_[i].note = found.error().message();
      log(LogLevel::kError, infos_[i].note);
      failures_.emplace(infos_[i].backend, found.error());
      continue;
    }
    for (DeviceInfo& device : *found) {
      device.plugin = i;
      devices_.push_back(std::move(device));
    }
  }
  return {};
}

Result<const DeviceInfo*> PluginHostImpl::find_device(std::string_view id) const {
  const DeviceInfo* best = nullptr;
  for (const DeviceInfo& device : devices_) {
    if (device.id != id && device.backend != id) continue;
    if (device.score > 0 && (!best || device.score > best->score)) best = &device;
  }
  if (best) return best;
  const std::string backend(id.substr(0, id.find(':')));
  if (const auto failure = failures_.find(backend); failure != failures_.end())
    return tl::make_unexpected(failure->second);
  return tl::make_unexpected(no_such_device(id));
}

std::string PluginHostImpl::why_backend_is_absent(const std::string& backend) const {
  for (const PluginInfo& plugin : infos_)
    if (plugin.backend == backend && !plugin.note.empty()) return plugin.note;
  for (const RejectedPlugin& file : rejected_)
    if (file.path.filename().string().find(backend) != std::string::npos)
      return fmt::format("{}: {}", file.path.string(), file.reason);
  for (const DeviceInfo& device : devices_)
    if (device.backend == backend) return {};
  return fmt::format(
      "no plugin offers '{}', looked in {}", backend,
      searched_.empty() ? "no folder" : fmt::format("{}", fmt::join(searched_, ", ")));
}

Error PluginHostImpl::no_such_device(std::string_view id) const {
  const std::string backend(id.substr(0, id.find(':')));
  std::vector<std::string> usable, unusable, names;
  for (const DeviceInfo& device : devices_) {
    if (device.score > 0) {
      usable.push_back(device.id);
      names.push_back(device.id);
      names.push_back(device.backend);
    } else if (device.id == id || device.backend == id) {
      unusable.push_back(fmt::format("{} ({}): {}", device.id, device.name, device.reason));
    }
  }
  Error error{ErrorCode::kNotFound, {}, fmt::format("device {}", id), {}};
  const std::string exists =
      usable.empty() ? "no device is usable" : fmt::format("usable: {}", fmt::join(usable, ", "));
  const std::string why = why_backend_is_absent(backend);
  if (!unusable.empty())
    error.what = fmt::format("cannot be used: {}; {}", fmt::join(unusable, "; "), exists);
  else if (!why.empty())
    error.what = fmt::format("there is none: {}; {}", why, exists);
  else
    error.what = fmt::format("there is no such device; {}", exists);
  error.hint = did_you_mean(id, names);
  if (error.hint.empty()) error.hint = "--list-devices shows devices and rejected plugins";
  return error;
}

Result<std::shared_ptr<Device>> PluginHostImpl::open(const DeviceInfo& device) {
  if (device.plugin >= plugins_.size() || plugins_[device.plugin]->info.backend != device.backend)
    return fail(ErrorCode::kInternal, "the device belongs to no plugin of this host", device.id);
  if (device.score == 0) return tl::make_unexpected(no_such_device(device.id));
  return open_device(plugins_[device.plugin], device, gates_.values(device.backend));
}

}  // namespace

Result<std::unique_ptr<PluginHost>> PluginHost::load(const Options& options) {
  auto host = std::make_unique<PluginHostImpl>();
  MINFER_TRY(host->load_all(options));
  return host;
}

}  // namespace minfer
