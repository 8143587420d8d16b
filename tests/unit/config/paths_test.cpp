#include <gtest/gtest.h>

#include <filesystem>

#include "config/paths.h"

namespace minfer {
namespace {

// Linked into a program, plugins and configs are found relative to that program's real place,
// whatever the working directory and however the tree was moved.
TEST(LibraryDir, IsTheFolderOfTheCodeItself) {
  namespace fs = std::filesystem;
  const fs::path before = fs::current_path();
  fs::current_path("/");
  EXPECT_EQ(library_dir(), fs::canonical("/proc/self/exe").parent_path());
  fs::current_path(before);
}

}  // namespace
}  // namespace minfer
