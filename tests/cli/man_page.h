// Whether a tool's manual page keeps up with its flags.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "run_tool.h"

namespace minfer {

/// Flags ("--name") of a tool's --help that its page in docs/man does not mention.
inline std::vector<std::string> flags_without_manual(const std::string& tool) {
  const std::string name = std::filesystem::path(tool).filename().string();
  const std::string page = read_file(MINFER_SOURCE_DIR "/docs/man/" + name + ".1");
  const std::string help = run_tool(tool, {"--help"}).out;
  std::set<std::string> missing;
  for (size_t at = 0; (at = help.find("--", at)) != std::string::npos;) {
    const size_t end = help.find_first_not_of("abcdefghijklmnopqrstuvwxyz-", at);
    const std::string flag = help.substr(at, end - at);
    if (flag.size() > 2 && page.find(flag) == std::string::npos) missing.insert(flag);
    at += flag.size();
  }
  return {missing.begin(), missing.end()};
}

}  // namespace minfer
