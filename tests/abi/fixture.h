// Shared by the tests of the plugin boundary: scratch folders, the faulty plugins, a device to
// spoil.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "minfer/plugin_host.h"

namespace minfer {

/// Path of a plugin that tests/abi/CMakeLists.txt builds.
std::filesystem::path plugin_file(const std::string& name);

/// A folder of its own for each test, removed afterwards, owned and writable by the user alone.
class AbiTest : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  /// Copies a built plugin into the folder under another name.
  std::filesystem::path copy(const std::string& plugin, const std::string& as);
  std::filesystem::path folder() const { return folder_; }

  /// Loads exactly `files`, searching nowhere.
  static Result<std::unique_ptr<PluginHost>> load(std::vector<std::filesystem::path> files);
  /// Loads one file that must be refused with `code` and a message that has all of `parts`.
  static void expect_refused(const std::filesystem::path& file, ErrorCode code,
                             const std::vector<std::string>& parts);

 private:
  std::filesystem::path folder_;
};

/// True when `text` has every part, else an assertion failure that shows the text.
::testing::AssertionResult contains(const std::string& text, const std::vector<std::string>& parts);

/// Chooses a fault of a loaded variant; returns its count of live objects.
int set_fault(const std::filesystem::path& plugin, const char* fault);

}  // namespace minfer
