// Which files may be opened as plugins. A plugin is code that runs with the user's rights, so a
// file that somebody else could have written is refused before the loader sees it.
#pragma once

#include <sys/types.h>
#include <filesystem>
#include <string>
#include <utility>

#include "minfer/result.h"

namespace minfer {

struct PluginFile {
  std::filesystem::path path;  ///< with every symbolic link resolved
  std::pair<dev_t, ino_t> identity;
};

/// Follows links and checks the target: a regular file, in a directory and under an owner (root or
/// the user) such that nobody else can write or replace it. A group may write only if it is the
/// owner's private one (the same name, no other members), as umask 002 leaves it. The error is
/// kNotFound or kPlugin and does not repeat the path.
Result<PluginFile> check_plugin_file(const std::filesystem::path& path);

/// The same rule for a directory that is searched.
Result<void> check_plugin_directory(const std::filesystem::path& directory);

}  // namespace minfer
