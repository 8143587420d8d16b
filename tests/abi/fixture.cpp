#include "fixture.h"

#include <dlfcn.h>
#include <stdlib.h>

namespace minfer {

namespace fs = std::filesystem;

fs::path plugin_file(const std::string& name) {
  return fs::path(MINFER_ABI_PLUGIN_DIR) / (name + ".so");
}

void AbiTest::SetUp() {
  std::string name = (fs::temp_directory_path() / "minfer-abi-XXXXXX").string();
  ASSERT_NE(::mkdtemp(name.data()), nullptr);
  folder_ = fs::canonical(name);
}

void AbiTest::TearDown() {
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

fs::path AbiTest::copy(const std::string& plugin, const std::string& as) {
  const fs::path to = folder_ / as;
  fs::copy_file(plugin_file(plugin), to);
  fs::permissions(to, fs::perms(0644));
  return to;
}

Result<std::unique_ptr<PluginHost>> AbiTest::load(std::vector<fs::path> files) {
  return PluginHost::load({.files = std::move(files), .search = false, .library_dir = {}});
}

void AbiTest::expect_refused(const fs::path& file, ErrorCode code,
                             const std::vector<std::string>& parts) {
  auto host = load({file});
  ASSERT_FALSE(host) << file << " was accepted";
  EXPECT_EQ(host.error().code, code) << host.error().message();
  EXPECT_TRUE(contains(host.error().message(), {file.string()}));
  EXPECT_TRUE(contains(host.error().message(), parts));
}

::testing::AssertionResult contains(const std::string& text,
                                    const std::vector<std::string>& parts) {
  for (const std::string& part : parts)
    if (text.find(part) == std::string::npos)
      return ::testing::AssertionFailure() << "'" << part << "' is not in: " << text;
  return ::testing::AssertionSuccess();
}

int set_fault(const fs::path& plugin, const char* fault) {
  void* handle = ::dlopen(plugin.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  if (!handle) return -1;
  const auto set = reinterpret_cast<int (*)(const char*)>(::dlsym(handle, "variant_set_fault"));
  const int live = set ? set(fault) : -1;
  ::dlclose(handle);
  return live;
}

}  // namespace minfer
