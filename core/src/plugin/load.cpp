// Opening a plugin library: the loader, the version in the symbol's name, the query.
#include <dlfcn.h>
#include <fmt/format.h>

#include <map>
#include <mutex>

#include "minfer/log.h"
#include "plugin/abi_text.h"
#include "plugin/plugin.h"
#include "plugin/table_check.h"

namespace minfer {
namespace {

constexpr unsigned kNewestMajorProbed = 9;
constexpr size_t kLogLineBytes = 4096;

/// What the host's functions receive as ctx. Plugins may keep the host table, so both live for
/// good.
struct HostContext {
  minfer_host host{};
  std::string label;  ///< starts the plugin's log lines
};

void host_log(void* ctx, int32_t level, const char* line) {
  try {
    const auto& context = *static_cast<const HostContext*>(ctx);
    const int clamped = level < MINFER_LOG_DEBUG   ? MINFER_LOG_DEBUG
                        : level > MINFER_LOG_ERROR ? MINFER_LOG_ERROR
                                                   : level;
    log(static_cast<LogLevel>(clamped),
        fmt::format("{}: {}", context.label, clean_text(line, kLogLineBytes)));
  } catch (...) {
    // Nothing may cross into the plugin; a log line that cannot be written is dropped.
  }
}

const void* host_get_interface(void*, const char*, uint32_t) {
  return nullptr;
}

/// The host table of the plugin at `path`; one for the life of the process.
const minfer_host* host_table(const std::filesystem::path& path) {
  static std::mutex mutex;
  static auto& contexts = *new std::map<std::filesystem::path, std::unique_ptr<HostContext>>;
  std::lock_guard lock(mutex);
  auto& context = contexts[path];
  if (!context) {
    context = std::make_unique<HostContext>();
    context->label = path.stem().string();
    context->host.struct_size = sizeof(minfer_host);
    context->host.abi_minor = MINFER_ABI_MINOR;
    context->host.core_version = MINFER_CORE_VERSION;
    context->host.ctx = context.get();
    context->host.log = host_log;
    context->host.get_interface = host_get_interface;
  }
  return &context->host;
}

std::string loader_words() {
  const char* text = ::dlerror();
  return text ? clean_text(text, 4096) : "the loader gave no reason";
}

Result<void*> open_library(const std::filesystem::path& path) {
  if (void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return handle;
  const std::string words = loader_words();
  const bool dependency = words.find("cannot open shared object file") != std::string::npos;
  return fail(ErrorCode::kPlugin, fmt::format("cannot be loaded: {}", words), {},
              dependency ? "install the library it needs" : "");
}

Result<minfer_plugin_query_fn> find_query(void* handle) {
  if (void* symbol = ::dlsym(handle, MINFER_QUERY_SYMBOL))
    return reinterpret_cast<minfer_plugin_query_fn>(symbol);
  for (unsigned major = 0; major <= kNewestMajorProbed; ++major)
    if (major != MINFER_ABI_MAJOR &&
        ::dlsym(handle, fmt::format("minfer_plugin_query_v{}", major).c_str()))
      return fail(
          ErrorCode::kPlugin,
          fmt::format("was built for plugin ABI {}; this minfer {} has plugin ABI {} (minor {})",
                      major, MINFER_CORE_VERSION, MINFER_ABI_MAJOR, MINFER_ABI_MINOR),
          {}, fmt::format("install a build of it for ABI {}", MINFER_ABI_MAJOR));
  return fail(ErrorCode::kPlugin,
              fmt::format("is no minfer plugin: it does not export {}", MINFER_QUERY_SYMBOL));
}

Result<const minfer_plugin*> query(minfer_plugin_query_fn function,
                                   const std::filesystem::path& path) {
  static std::mutex mutex;  // queries are serialised
  std::lock_guard lock(mutex);
  const minfer_plugin* table = nullptr;
  minfer_error error;
  const minfer_status status =
      guarded_call(error, [&](minfer_error* e) { return function(host_table(path), &table, e); });
  if (status == MINFER_OK) return table;
  Error failure = status_error(status, error, {}, "its query");
  failure.code = ErrorCode::kPlugin;
  if (status == MINFER_VERSION)
    failure.what += fmt::format("; this minfer is {} with plugin ABI {}.{}", MINFER_CORE_VERSION,
                                MINFER_ABI_MAJOR, MINFER_ABI_MINOR);
  return tl::make_unexpected(std::move(failure));
}

}  // namespace

Result<std::shared_ptr<Plugin>> load_plugin(const std::filesystem::path& path) {
  MINFER_ASSIGN(void* handle, open_library(path));
  MINFER_ASSIGN(const minfer_plugin_query_fn function, find_query(handle));
  MINFER_ASSIGN(const minfer_plugin* table, query(function, path));
  auto plugin = std::make_shared<Plugin>();
  plugin->info.path = path;
  MINFER_TRY(read_table(table, *plugin));
  return plugin;
}

}  // namespace minfer
