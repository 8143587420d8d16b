// Files of a test. Tests run side by side, each in a process, so no two may share a path.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

namespace minfer {

/// A path in a folder of this process, which is removed when the process ends.
inline std::filesystem::path scratch(const std::string& name) {
  static const struct Folder {
    std::filesystem::path path = std::filesystem::path(::testing::TempDir()) /
                                 ("minfer-scratch-" + std::to_string(::getpid()));
    Folder() { std::filesystem::create_directories(path); }
    ~Folder() {
      std::error_code ignored;
      std::filesystem::remove_all(path, ignored);
    }
  } folder;
  return folder.path / name;
}

}  // namespace minfer
