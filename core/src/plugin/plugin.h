// One opened plugin: its checked table and the guard around calls into it.
#pragma once

#include <fmt/format.h>

#include <exception>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "minfer/gates.h"
#include "minfer/plugin_abi.h"
#include "minfer/plugin_host.h"
#include "minfer/result.h"

namespace minfer {

/// A plugin whose table passed every check. Immutable once loaded; shared by its devices.
struct Plugin {
  PluginInfo info;
  minfer_plugin table{};  ///< our copy: slots beyond the plugin's size are NULL
  std::vector<GateSpec> gates;
  std::vector<minfer_op_support> ops;
};

/// Opens the library (RTLD_NOW | RTLD_LOCAL, for good), queries it and checks its table. The error
/// is kPlugin, says what was found and expected, and keeps the loader's own words.
Result<std::shared_ptr<Plugin>> load_plugin(const std::filesystem::path& path);

/// The Error for a status that `function` returned; `text` is what the plugin wrote.
Error status_error(minfer_status status, const minfer_error& text, const std::string& where,
                   const char* function);

/// kPlugin: the plugin returned something that the contract excludes.
tl::unexpected<Error> contract_error(const std::string& where, const char* function,
                                     const std::string& found);

/// Calls into a plugin: `call(minfer_error*)` returns a status. Exceptions stop here; they break
/// the contract, but are still reported in words rather than ending the process.
template <class Call>
minfer_status guarded_call(minfer_error& error, Call&& call) {
  error.text[0] = '\0';
  try {
    return call(&error);
  } catch (const std::exception& e) {
    fmt::format_to_n(error.text, sizeof(error.text) - 1, "threw an exception: {}", e.what())
        .out[0] = '\0';
  } catch (...) {
    fmt::format_to_n(error.text, sizeof(error.text) - 1, "threw an exception").out[0] = '\0';
  }
  return MINFER_INTERNAL;
}

/// guarded_call for functions where anything but MINFER_OK is a failure.
template <class Call>
Result<void> checked_call(const std::string& where, const char* function, Call&& call) {
  minfer_error error;
  const minfer_status status = guarded_call(error, call);
  if (status == MINFER_OK) return {};
  return tl::make_unexpected(status_error(status, error, where, function));
}

/// Opens a device of a checked plugin. `gates` are the values of the plugin's own gates.
Result<std::shared_ptr<Device>> open_device(std::shared_ptr<const Plugin> plugin,
                                            const DeviceInfo& info, std::vector<int64_t> gates);

/// Lists a plugin's devices; garbage in any entry is a kPlugin error. `note` receives why there is
/// none.
Result<std::vector<DeviceInfo>> enumerate_devices(const Plugin& plugin, std::string& note);

}  // namespace minfer
