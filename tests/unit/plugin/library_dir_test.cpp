#include <gtest/gtest.h>

#include <filesystem>

#include "plugin/discovery.h"

namespace minfer {
namespace {

// Linked into a program, the host finds plugins relative to that program's real place, whatever the
// working directory and however the tree was moved.
TEST(LibraryDir, IsTheFolderOfTheCodeItself) {
  namespace fs = std::filesystem;
  const fs::path before = fs::current_path();
  fs::current_path("/");
  EXPECT_EQ(core_library_dir(), fs::canonical("/proc/self/exe").parent_path());
  fs::current_path(before);
}

}  // namespace
}  // namespace minfer
