// Finding configs and models by name, and reading a config from disk.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

#include "config/paths.h"
#include "minfer/config.h"
#include "minfer/nearest.h"

namespace minfer {
namespace {

namespace fs = std::filesystem;

constexpr uintmax_t kMaxConfigBytes = uintmax_t{1} << 20;
constexpr size_t kMaxListed = 1000;  // names that are compared for a suggestion

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

bool is_file(const fs::path& path) {
  std::error_code ec;
  return fs::is_regular_file(path, ec);
}

/// Names with an extension in some folders, sorted, for suggestions.
std::vector<std::string> names_in(std::span<const fs::path> folders, const char* extension) {
  std::vector<std::string> names;
  for (const fs::path& folder : folders) {
    std::error_code ec;
    for (fs::directory_iterator it(folder, ec), end; !ec && it != end; it.increment(ec)) {
      if (names.size() >= kMaxListed) break;
      if (it->path().extension() == extension) names.push_back(it->path().filename().string());
    }
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

std::string joined(std::span<const fs::path> paths) {
  std::vector<std::string> texts;
  for (const fs::path& path : paths) texts.push_back(path.string());
  return fmt::format("{}", fmt::join(texts, ", "));
}

}  // namespace

std::vector<fs::path> config_folders() {
  std::vector<fs::path> folders;
  if (const fs::path library = library_dir(); !library.empty())
    folders.push_back((library / MINFER_CONFIGS_FROM_LIBRARY).lexically_normal());
  folders.emplace_back(MINFER_SOURCE_CONFIGS);
  return folders;
}

Result<fs::path> find_config(std::string_view name) {
  const fs::path given(name);
  if (name.empty()) return fail(ErrorCode::kUsage, "the config's name is empty");
  if (is_file(given)) return given;
  std::vector<fs::path> tried = {given};
  std::vector<fs::path> folders = {given.has_parent_path() ? given.parent_path() : fs::path(".")};
  // Only a bare name is looked up elsewhere; a path means exactly that file.
  if (!given.has_parent_path()) {
    const fs::path file = given.has_extension() && given.extension() == ".yaml"
                              ? given
                              : fs::path(std::string(name) + ".yaml");
    if (file != given) tried.push_back(file);
    for (const fs::path& folder : config_folders()) {
      folders.push_back(folder);
      tried.push_back(folder / file);
    }
    for (const fs::path& path : tried)
      if (is_file(path)) return path;
  }
  std::error_code ec;
  if (fs::is_directory(given, ec))
    return fail(ErrorCode::kNotFound, "is a folder; a config is a YAML file", given.string());
  const std::vector<std::string> names = names_in(folders, ".yaml");
  std::string hint = did_you_mean(tried.back().filename().string(), names);
  if (hint.empty() && !names.empty()) hint = fmt::format("there are: {}", fmt::join(names, ", "));
  return fail(ErrorCode::kNotFound, fmt::format("no such config; looked for {}", joined(tried)),
              std::string(name), std::move(hint));
}

fs::path model_cache() {
  if (const std::string cache = environment("XDG_CACHE_HOME"); cache.starts_with('/'))
    return fs::path(cache) / "minfer/models";
  if (const std::string home = environment("HOME"); home.starts_with('/'))
    return fs::path(home) / ".cache/minfer/models";
  return {};
}

Result<fs::path> find_model(std::string_view name, const fs::path& folder) {
  if (name.empty()) return fail(ErrorCode::kUsage, "the model's name is empty");
  fs::path given(name);
  if (name.starts_with("~/")) {
    const std::string home = environment("HOME");
    if (home.empty())
      return fail(ErrorCode::kNotFound, "'~' has no meaning: HOME is not set", std::string(name));
    given = fs::path(home) / name.substr(2);
  }
  std::vector<fs::path> tried;
  if (given.is_absolute()) {
    tried = {given};
  } else {
    tried.push_back(folder / given);
    if (const fs::path cache = model_cache(); !cache.empty()) tried.push_back(cache / given);
  }
  std::vector<fs::path> folders;
  for (const fs::path& path : tried) {
    if (is_file(path)) return path;
    if (std::error_code ec; fs::exists(path, ec))
      return fail(ErrorCode::kNotFound,
                  fmt::format("is {}; a model is a GGUF file",
                              fs::is_directory(path, ec) ? "a folder" : "not a regular file"),
                  path.string());
    folders.push_back(path.parent_path().empty() ? fs::path(".") : path.parent_path());
  }
  return fail(ErrorCode::kNotFound, fmt::format("no such model file; looked for {}", joined(tried)),
              std::string(name),
              did_you_mean(given.filename().string(), names_in(folders, ".gguf")));
}

Result<RunConfig> load_config(const fs::path& file) {
  std::error_code ec;
  if (!fs::exists(file, ec)) return fail(ErrorCode::kNotFound, "no such file", file.string());
  if (!is_file(file))
    return fail(ErrorCode::kNotFound, "is not a regular file; a config is a YAML file",
                file.string());
  if (const uintmax_t size = fs::file_size(file, ec); !ec && size > kMaxConfigBytes)
    return fail(ErrorCode::kConfig,
                fmt::format("{} bytes; a config has at most {}", size, kMaxConfigBytes),
                file.string());
  std::ifstream stream(file, std::ios::binary);
  std::ostringstream text;
  if (!stream || !(text << stream.rdbuf()).good()) {
    // An empty file sets failbit on `text` and nothing else.
    if (!stream.is_open() || stream.bad())
      return fail(ErrorCode::kIo, fmt::format("cannot be read: {}", std::strerror(errno)),
                  file.string());
  }
  MINFER_ASSIGN(RunConfig config, parse_config(text.str(), file));
  if (config.model_text.empty()) return config;
  auto model = find_model(config.model_text, file.parent_path());
  if (!model) {
    Error error = model.error();
    error.where = fmt::format("{}: model {}", file.string(), config.model_text);
    if (error.hint.empty()) error.hint = "the config's comments say where its model comes from";
    return tl::make_unexpected(std::move(error));
  }
  config.model = *model;
  return config;
}

}  // namespace minfer
