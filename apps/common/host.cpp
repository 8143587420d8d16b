#include "host.h"

#include <fmt/format.h>

#include "flags.h"
#include "minfer/log.h"
#include "minfer/nearest.h"

namespace minfer::app {
namespace {

constexpr uint32_t kMaxDeviceIndex = 255;

struct CacheTypeName {
  std::string_view name;
  CacheType type;
  std::optional<uint32_t> tensor_type;
};
constexpr CacheTypeName kCacheTypes[] = {{"auto", CacheType::kAuto, std::nullopt},
                                         {"f32", CacheType::kF32, MINFER_TYPE_F32},
                                         {"f16", CacheType::kF16, MINFER_TYPE_F16},
                                         {"q8_0", CacheType::kQ8_0, MINFER_TYPE_Q8_0}};

std::vector<std::string> names_of(const GateRegistry& gates, std::string_view owner) {
  std::vector<std::string> names;
  for (const Gate& gate : gates.all())
    if (owner.empty() || gate.spec.owner == owner) names.push_back(gate.spec.name);
  return names;
}

bool is_owner(const PluginHost& host, std::string_view owner) {
  if (owner == "core") return true;
  for (const PluginInfo& plugin : host.plugins())
    if (plugin.backend == owner) return true;
  return false;
}

Result<void> apply(PluginHost& host, const GateFlag& flag) {
  const Gate* gate = host.gates().find(flag.name);
  if (!flag.owner.empty() && !is_owner(host, flag.owner)) {
    log(LogLevel::kInfo, fmt::format("{} {} has no effect: there is no backend '{}' here",
                                     flag.flag, flag.name, flag.owner));
    return {};
  }
  if (!gate || (!flag.owner.empty() && gate->spec.owner != flag.owner)) {
    std::string hint = gate ? fmt::format("it belongs to '{}'", gate->spec.owner)
                            : did_you_mean(flag.name, names_of(host.gates(), flag.owner));
    if (hint.empty()) hint = "--list-gates shows them";
    const std::string owner = flag.owner.empty() ? "" : fmt::format(" of '{}'", flag.owner);
    return fail(ErrorCode::kUsage, fmt::format("there is no gate {}{}", flag.name, owner),
                flag.flag, std::move(hint));
  }
  auto set = host.gates().set(flag.name, flag.text, GateSource::kFlag);
  if (set) return {};
  Error error = std::move(set).error();
  error.code = ErrorCode::kUsage;
  error.where = flag.flag;
  return tl::make_unexpected(std::move(error));
}

}  // namespace

Result<GateFlag> parse_gate(const std::string& text) {
  const size_t equals = text.find('=');
  const size_t colon = text.substr(0, equals).find(':');
  const size_t name = colon == std::string::npos ? 0 : colon + 1;
  if (equals == std::string::npos || equals == name || colon == 0)
    return fail(ErrorCode::kUsage, fmt::format("'{}' is not OWNER:NAME=VALUE", text), "--gate",
                "e.g. cpu:MINFER_CPU_ISA=avx2");
  return GateFlag{.owner = name == 0 ? std::string() : text.substr(0, colon),
                  .name = text.substr(name, equals - name),
                  .text = text.substr(equals + 1),
                  .flag = "--gate"};
}

Result<CacheType> parse_cache_type(const std::string& name) {
  for (const CacheTypeName& known : kCacheTypes)
    if (name == known.name) return known.type;
  return fail(ErrorCode::kUsage, fmt::format("there is no cache type '{}'", name), "--cache-type",
              "auto, f32, f16 or q8_0");
}

std::optional<uint32_t> kv_type(CacheType type) {
  for (const CacheTypeName& known : kCacheTypes)
    if (type == known.type) return known.tensor_type;
  return std::nullopt;
}

Result<std::unique_ptr<PluginHost>> open_host(const RunConfig& config,
                                              const std::vector<GateFlag>& flags) {
  PluginHost::Options options;
  for (const auto& plugin : config.plugins) options.files.push_back(plugin);
  for (const BackendConfig& backend : config.backends)
    if (!backend.plugin.empty()) options.files.push_back(backend.plugin);
  MINFER_ASSIGN(auto host, PluginHost::load(options));
  MINFER_TRY(host->gates().resolve(config.all_gates(), config.gate_locations));
  for (const GateFlag& flag : flags) MINFER_TRY(apply(*host, flag));
  MINFER_TRY(host->enumerate());
  return host;
}

Result<std::vector<BackendConfig>> parse_devices(const std::string& text) {
  std::vector<BackendConfig> devices;
  for (const std::string& id : split_list(text)) {
    BackendConfig device;
    const size_t colon = id.find(':');
    device.name = id.substr(0, colon);
    if (device.name.empty())
      return fail(ErrorCode::kUsage, fmt::format("'{}' is not a device", id), "--device",
                  "e.g. cpu, cuda or cuda:1");
    if (colon != std::string::npos) {
      MINFER_ASSIGN(device.device,
                    Flags::integer<uint32_t>("device", id.substr(colon + 1), 0, kMaxDeviceIndex));
    }
    devices.push_back(std::move(device));
  }
  if (devices.empty())
    return fail(ErrorCode::kUsage, "no device is named", "--device", "e.g. cuda:0,cpu");
  return devices;
}

}  // namespace minfer::app
