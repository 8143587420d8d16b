#include "plugin/discovery.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "config/paths.h"
#include "plugin/file_check.h"

namespace minfer {
namespace {

namespace fs = std::filesystem;

#if defined(__APPLE__)
constexpr const char* kSuffix = ".dylib";
#else
constexpr const char* kSuffix = ".so";
#endif

/// A variable of the environment, or an empty string in set-uid programs, where it is not the
/// user's.
std::string trusted_environment(const char* name) {
#if defined(__GLIBC__)
  const char* value = ::secure_getenv(name);
#else
  const char* value = std::getenv(name);
#endif
  return value ? value : "";
}

struct Folder {
  fs::path path;
  bool must_exist;  ///< named by the user
};

std::vector<Folder> folders(const PluginHost::Options& options) {
  std::vector<Folder> out;
  const std::string list = trusted_environment("MINFER_PLUGIN_PATH");
  for (size_t at = 0; at < list.size();) {
    const size_t end = std::min(list.find(':', at), list.size());
    if (end > at) out.push_back({list.substr(at, end - at), true});
    at = end + 1;
  }
  const fs::path library = options.library_dir.empty() ? library_dir() : options.library_dir;
  if (!library.empty()) out.push_back({library / "minfer" / "plugins", false});
  if (const std::string home = trusted_environment("HOME"); home.starts_with('/'))
    out.push_back({fs::path(home) / ".local/lib/minfer/plugins", false});
  return out;
}

void list_folder(const Folder& folder, std::vector<PluginCandidate>& found,
                 std::vector<RejectedPlugin>& rejected) {
  if (!folder.path.is_absolute()) {
    rejected.push_back({folder.path, "MINFER_PLUGIN_PATH takes absolute folders only"});
    return;
  }
  if (auto trusted = check_plugin_directory(folder.path); !trusted) {
    if (folder.must_exist || trusted.error().code != ErrorCode::kNotFound)
      rejected.push_back({folder.path, trusted.error().message()});
    return;
  }
  std::error_code ec;
  std::vector<fs::path> entries;
  for (fs::directory_iterator it(folder.path, ec), end; !ec && it != end; it.increment(ec))
    if (it->path().extension() == kSuffix) entries.push_back(it->path());
  if (ec) rejected.push_back({folder.path, fmt::format("cannot be listed: {}", ec.message())});
  std::sort(entries.begin(), entries.end());
  for (fs::path& entry : entries) found.push_back({std::move(entry), false});
}

}  // namespace

std::vector<PluginCandidate> find_plugins(const PluginHost::Options& options,
                                          std::vector<RejectedPlugin>& rejected) {
  std::vector<PluginCandidate> found;
  for (const fs::path& file : options.files) found.push_back({file, true});
  if (options.search)
    for (const Folder& folder : folders(options)) list_folder(folder, found, rejected);
  return found;
}

std::vector<fs::path> plugin_folders(const PluginHost::Options& options) {
  std::vector<fs::path> paths;
  if (options.search)
    for (const Folder& folder : folders(options)) paths.push_back(folder.path);
  return paths;
}

}  // namespace minfer
