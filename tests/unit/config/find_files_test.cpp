// Looking up configs and models, and the configs that minfer ships.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdlib>
#include <fstream>

#include "minfer/config.h"

namespace minfer {
namespace {

namespace fs = std::filesystem;

class Lookup : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "minfer-config-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    if (const char* cache = std::getenv("XDG_CACHE_HOME")) saved_cache_ = cache;
    ::setenv("XDG_CACHE_HOME", (folder_ / "cache").c_str(), 1);
    before_ = fs::current_path();
    fs::current_path(folder_);
  }
  void TearDown() override {
    fs::current_path(before_);
    if (saved_cache_.empty())
      ::unsetenv("XDG_CACHE_HOME");
    else
      ::setenv("XDG_CACHE_HOME", saved_cache_.c_str(), 1);
    fs::remove_all(folder_);
  }
  fs::path write(const fs::path& path, const std::string& text) {
    fs::create_directories((folder_ / path).parent_path());
    std::ofstream(folder_ / path) << text;
    return folder_ / path;
  }

  fs::path folder_, before_;
  std::string saved_cache_;
};

TEST_F(Lookup, AModelIsRelativeToItsConfigThenToTheCache) {
  const fs::path config = write("c/a.yaml", "model: m.gguf\n");
  const fs::path cached = write("cache/minfer/models/m.gguf", "x");
  auto loaded = load_config(config);
  ASSERT_TRUE(loaded) << loaded.error().message();
  EXPECT_EQ(loaded->model, cached);
  const fs::path beside = write("c/m.gguf", "x");
  EXPECT_EQ(load_config(config)->model, beside);
  write("c/b.yaml", "model: " + cached.string() + "\n");
  EXPECT_EQ(load_config(folder_ / "c/b.yaml")->model, cached);
}

TEST_F(Lookup, AMissingModelListsThePlacesAndTheNearestName) {
  const fs::path config = write("c/a.yaml", "model: smolm2.gguf\n");
  write("cache/minfer/models/smollm2.gguf", "x");
  auto loaded = load_config(config);
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().code, ErrorCode::kNotFound);
  const std::string message = loaded.error().message();
  for (const std::string& part : {(folder_ / "c/smolm2.gguf").string(),
                                  (folder_ / "cache/minfer/models/smolm2.gguf").string(),
                                  std::string("did you mean 'smollm2.gguf'?")})
    EXPECT_NE(message.find(part), std::string::npos) << message;
}

TEST_F(Lookup, AModelMayLieUnderHome) {
  const char* home = std::getenv("HOME");
  const std::string saved = home ? home : "";
  ::setenv("HOME", folder_.c_str(), 1);
  const fs::path model = write("models/m.gguf", "x");
  EXPECT_EQ(*find_model("~/models/m.gguf", "/elsewhere"), model);
  ::setenv("HOME", saved.c_str(), 1);
}

TEST_F(Lookup, AFolderIsNoModelAndNoConfig) {
  fs::create_directories(folder_ / "d");
  EXPECT_FALSE(find_model("d", folder_));
  EXPECT_FALSE(find_config("./d"));
  auto loaded = load_config(folder_ / "d");
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().code, ErrorCode::kNotFound);
}

TEST_F(Lookup, AConfigIsTakenAsGivenFirst) {
  write("qwen7b.yaml", "");
  EXPECT_EQ(*find_config("qwen7b.yaml"), "qwen7b.yaml");
  EXPECT_EQ(*find_config("qwen7b"), "qwen7b.yaml");
  EXPECT_EQ(*find_config((folder_ / "qwen7b.yaml").string()), folder_ / "qwen7b.yaml");
}

TEST_F(Lookup, ABareNameIsFoundAmongTheShippedConfigs) {
  const fs::path shipped = fs::path(MINFER_SOURCE_DIR) / "configs/smollm2-135m.yaml";
  EXPECT_EQ(*find_config("smollm2-135m.yaml"), shipped);
  EXPECT_EQ(*find_config("smollm2-135m"), shipped);
  EXPECT_EQ(*find_config("qwen0.5b"), fs::path(MINFER_SOURCE_DIR) / "configs/qwen0.5b.yaml");
  EXPECT_FALSE(find_config("./smollm2-135m.yaml")) << "a path means that file only";
}

TEST_F(Lookup, AMissingConfigListsThePlacesAndTheNearestName) {
  auto found = find_config("smollm2-136m.yaml");
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, ErrorCode::kNotFound);
  const std::string message = found.error().message();
  for (const std::string& part :
       {std::string("looked for smollm2-136m.yaml"), std::string("share/minfer/configs"),
        std::string(MINFER_SOURCE_DIR "/configs"),
        std::string("did you mean 'smollm2-135m.yaml'?")})
    EXPECT_NE(message.find(part), std::string::npos) << message;
}

TEST_F(Lookup, WithoutANearNameTheShippedConfigsAreListed) {
  auto found = find_config("zebra");
  ASSERT_FALSE(found);
  EXPECT_NE(found.error().hint.find("there are: gemma3-270m.yaml, llama3-8b.yaml"),
            std::string::npos)
      << found.error().hint;
}

TEST_F(Lookup, AnEmptyFileIsAConfigAndALargeOneIsNone) {
  EXPECT_TRUE(load_config(write("empty.yaml", "")));
  auto large = load_config(write("large.yaml", std::string((1 << 20) + 1, '#')));
  ASSERT_FALSE(large);
  EXPECT_EQ(large.error().code, ErrorCode::kConfig);
  EXPECT_FALSE(load_config(folder_ / "none.yaml"));
  EXPECT_FALSE(load_config("/dev/zero")) << "a device has no end";
}

TEST(ShippedConfigs, AreValidAndSayWhereTheModelComesFrom) {
  size_t count = 0;
  for (const auto& entry : fs::directory_iterator(MINFER_SOURCE_DIR "/configs")) {
    if (entry.path().extension() != ".yaml") continue;
    ++count;
    std::ifstream file(entry.path());
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    auto config = parse_config(text, entry.path());
    ASSERT_TRUE(config) << config.error().message();
    EXPECT_TRUE(config->model_text.ends_with(".gguf")) << entry.path();
    EXPECT_NE(text.find("# Where the model comes from"), std::string::npos) << entry.path();
  }
  EXPECT_GE(count, 6u);
}

}  // namespace
}  // namespace minfer
