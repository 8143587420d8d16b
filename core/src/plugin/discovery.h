// Where plugins are looked for, and in which order.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "minfer/plugin_host.h"

namespace minfer {

struct PluginCandidate {
  std::filesystem::path path;
  bool required = false;  ///< named by the user: a rejection is an error
};

/// Candidates in order of precedence; folders and entries that cannot be used go to `rejected`.
/// Within a folder: every entry whose name ends in the platform's suffix (".so"), sorted by name.
std::vector<PluginCandidate> find_plugins(const PluginHost::Options& options,
                                          std::vector<RejectedPlugin>& rejected);

/// The folders that are searched, in order; empty when `options` switch the search off.
std::vector<std::filesystem::path> plugin_folders(const PluginHost::Options& options);

}  // namespace minfer
