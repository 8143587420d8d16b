// The security rules: whatever somebody else could have written is never loaded.
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "fixture.h"

namespace minfer {
namespace {

namespace fs = std::filesystem;
using Parts = std::vector<std::string>;

TEST_F(AbiTest, AWorldWritableFileIsRefused) {
  const fs::path file = copy("good", "open.so");
  fs::permissions(file, fs::perms(0646));
  expect_refused(file, ErrorCode::kPlugin, Parts{"writable by everyone", "0646", "chmod o-w"});
}

TEST_F(AbiTest, AGroupWritableFileOfASharedGroupIsRefused) {
  const fs::path file = copy("good", "group.so");
  // Any group that is not the user's private one; only root may choose it freely.
  if (::chown(file.c_str(), static_cast<uid_t>(-1), 65533) != 0)
    GTEST_SKIP() << "only root can give a file to another group";
  fs::permissions(file, fs::perms(0664));
  expect_refused(file, ErrorCode::kPlugin, Parts{"writable by its group", "65533", "0664"});
}

TEST_F(AbiTest, AFileOfAnotherUserIsRefused) {
  const fs::path file = copy("good", "foreign.so");
  if (::chown(file.c_str(), 65533, static_cast<gid_t>(-1)) != 0)
    GTEST_SKIP() << "only root can give a file to another user";
  expect_refused(file, ErrorCode::kPlugin, Parts{"belongs to", "65533", "root or to the user"});
}

TEST_F(AbiTest, AFileInAWorldWritableFolderIsRefused) {
  const fs::path inner = folder() / "open";
  fs::create_directory(inner);
  const fs::path file = inner / "good.so";
  fs::copy_file(plugin_file("good"), file);
  fs::permissions(file, fs::perms(0644));
  fs::permissions(inner, fs::perms(0777));
  expect_refused(file, ErrorCode::kPlugin, Parts{"could be replaced", "0777", inner.string()});
  // With the sticky bit, as on /tmp, nobody else can replace the file.
  ASSERT_EQ(::chmod(inner.c_str(), 01777), 0);
  EXPECT_TRUE(load({file}));
}

TEST_F(AbiTest, ALinkIsJudgedByItsTarget) {
  const fs::path target = copy("good", "target.so");
  const fs::path link = folder() / "link.so";
  fs::create_symlink(target, link);
  EXPECT_TRUE(load({link}));
  fs::permissions(target, fs::perms(0666));
  expect_refused(link, ErrorCode::kPlugin,
                 Parts{"its target", target.string(), "writable by everyone"});
}

TEST_F(AbiTest, ADanglingLinkIsNotFound) {
  const fs::path link = folder() / "link.so";
  fs::create_symlink(folder() / "nothing.so", link);
  expect_refused(link, ErrorCode::kNotFound, Parts{"symbolic link that cannot be followed"});
}

TEST_F(AbiTest, ALoopOfLinksIsRefused) {
  fs::create_symlink(folder() / "b.so", folder() / "a.so");
  fs::create_symlink(folder() / "a.so", folder() / "b.so");
  expect_refused(folder() / "a.so", ErrorCode::kNotFound, Parts{"cannot be followed"});
}

TEST_F(AbiTest, OnlyRegularFilesAreOpened) {
  const fs::path directory = folder() / "directory.so";
  fs::create_directory(directory);
  expect_refused(directory, ErrorCode::kPlugin, Parts{"a directory", "regular file"});

  // Opening a pipe would block for ever, so this also shows that it is judged before it is opened.
  const fs::path pipe = folder() / "pipe.so";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  expect_refused(pipe, ErrorCode::kPlugin, Parts{"a named pipe", "regular file"});

  const fs::path device = folder() / "device.so";
  fs::create_symlink("/dev/null", device);
  expect_refused(device, ErrorCode::kPlugin, Parts{"a device node", "regular file"});
}

}  // namespace
}  // namespace minfer
