// Where plugins are looked for, who wins, and what is reported about the rest.
#include <cstdlib>
#include <fstream>
#include <map>

#include "fixture.h"

namespace minfer {
namespace {

namespace fs = std::filesystem;

class Discovery : public AbiTest {
 protected:
  void SetUp() override {
    AbiTest::SetUp();
    for (const char* name : {"MINFER_PLUGIN_PATH", "HOME"}) {
      const char* value = std::getenv(name);
      saved_[name] = value ? value : "";
      ::unsetenv(name);
    }
  }
  void TearDown() override {
    for (const auto& [name, value] : saved_) ::setenv(name.c_str(), value.c_str(), 1);
    if (saved_["MINFER_PLUGIN_PATH"].empty()) ::unsetenv("MINFER_PLUGIN_PATH");
    AbiTest::TearDown();
  }
  fs::path put(const std::string& plugin, const std::string& as) {
    fs::create_directories((folder() / as).parent_path());
    return copy(plugin, as);
  }
  /// Searches with `folder()/lib` as the library folder.
  std::unique_ptr<PluginHost> search() {
    auto host = PluginHost::load({.files = {}, .search = true, .library_dir = folder() / "lib"});
    EXPECT_TRUE(host) << host.error().message();
    return host ? std::move(*host) : nullptr;
  }

 private:
  std::map<std::string, std::string> saved_;
};

std::string reason_of(const PluginHost& host, const fs::path& path) {
  for (const RejectedPlugin& file : host.rejected())
    if (file.path == path) return file.reason;
  return {};
}

TEST_F(Discovery, FindsThePluginsBesideTheLibrary) {
  put("good", "lib/minfer/plugins/good.so");
  const auto host = search();
  ASSERT_EQ(host->plugins().size(), 1u);
  EXPECT_EQ(host->plugins()[0].path, folder() / "lib/minfer/plugins/good.so");
  EXPECT_TRUE(host->rejected().empty());
}

TEST_F(Discovery, FindsThePluginsOfTheUser) {
  ::setenv("HOME", folder().c_str(), 1);
  put("good", ".local/lib/minfer/plugins/good.so");
  EXPECT_EQ(search()->plugins().size(), 1u);
}

TEST_F(Discovery, TheFirstOfANameWinsAndTheOthersAreReported) {
  ::setenv("HOME", folder().c_str(), 1);
  const fs::path path = put("good", "path/good.so");
  const fs::path lib = put("good", "lib/minfer/plugins/good.so");
  const fs::path home = put("good", ".local/lib/minfer/plugins/good.so");
  ::setenv("MINFER_PLUGIN_PATH", (folder() / "path").c_str(), 1);
  const auto host = search();
  ASSERT_EQ(host->plugins().size(), 1u);
  EXPECT_EQ(host->plugins()[0].path, path);
  for (const fs::path& shadowed : {lib, home})
    EXPECT_TRUE(contains(reason_of(*host, shadowed), {"shadowed by", path.string()}));
}

TEST_F(Discovery, OneBadFileDoesNotHideTheGoodOnes) {
  put("wrong_major", "lib/minfer/plugins/a.so");
  put("good", "lib/minfer/plugins/b.so");
  std::ofstream(folder() / "lib/minfer/plugins/c.so") << "text";
  fs::permissions(folder() / "lib/minfer/plugins/c.so", fs::perms(0644));
  fs::create_directory(folder() / "lib/minfer/plugins/d.so");
  fs::permissions(put("good", "lib/minfer/plugins/e.so"), fs::perms(0666));
  std::ofstream(folder() / "lib/minfer/plugins/README") << "not a candidate";
  const auto host = search();
  ASSERT_EQ(host->plugins().size(), 1u);
  const fs::path at = folder() / "lib/minfer/plugins";
  EXPECT_EQ(host->rejected().size(), 4u);
  EXPECT_TRUE(contains(reason_of(*host, at / "a.so"), {"plugin ABI 1"}));
  EXPECT_TRUE(contains(reason_of(*host, at / "c.so"), {"cannot be loaded"}));
  EXPECT_TRUE(contains(reason_of(*host, at / "d.so"), {"a directory"}));
  EXPECT_TRUE(contains(reason_of(*host, at / "e.so"), {"writable by everyone"}));
}

TEST_F(Discovery, FoldersOfTheUserThatCannotBeUsedAreReported) {
  const fs::path open = folder() / "open";
  fs::create_directory(open);
  fs::permissions(open, fs::perms(0777));
  ::setenv("MINFER_PLUGIN_PATH", ("relative:/nonexistent/folder:" + open.string()).c_str(), 1);
  const auto host = search();
  EXPECT_TRUE(contains(reason_of(*host, "relative"), {"absolute"}));
  EXPECT_TRUE(contains(reason_of(*host, "/nonexistent/folder"), {"No such file"}));
  EXPECT_TRUE(contains(reason_of(*host, open), {"writable by everyone"}));
}

TEST_F(Discovery, TheWorkingDirectoryIsNeverSearched) {
  put("good", "here/good.so");
  put("good", "here/minfer/plugins/good.so");
  const fs::path before = fs::current_path();
  fs::current_path(folder() / "here");
  ::setenv("MINFER_PLUGIN_PATH", ":.:", 1);
  EXPECT_TRUE(search()->plugins().empty());
  fs::current_path(before);
}

TEST_F(Discovery, NoSearchMeansNoSearch) {
  ::setenv("MINFER_PLUGIN_PATH", (folder() / "path").c_str(), 1);
  put("good", "path/good.so");
  auto host = load({});
  ASSERT_TRUE(host);
  EXPECT_TRUE((*host)->plugins().empty());
}

}  // namespace
}  // namespace minfer
