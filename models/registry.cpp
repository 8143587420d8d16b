#include "registry.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace minfer {
namespace {

struct Entry {
  std::string_view name;  ///< general.architecture
  ModelFactory make;
};

constexpr Entry kArchitectures[] = {
    {"llama", make_llama},
    {"qwen2", make_qwen2},
    {"qwen3", make_qwen3},
    {"gemma3", make_gemma3},
};

}  // namespace

std::vector<std::string_view> known_architectures() {
  std::vector<std::string_view> names;
  for (const Entry& entry : kArchitectures) names.push_back(entry.name);
  return names;
}

Result<std::shared_ptr<const Model>> Model::create(std::shared_ptr<const GgufFile> file) {
  const std::string path = file->path().string();
  MINFER_ASSIGN(const std::string_view arch, file->require_string("general.architecture"));
  for (const Entry& entry : kArchitectures) {
    if (entry.name != arch) continue;
    auto model = entry.make(std::move(file));
    if (!model) {
      Error& error = model.error();
      if (error.where.rfind(path, 0) != 0) error.where = fmt::format("{}: {}", path, error.where);
      return model;
    }
    // The smallest graph names every weight: shapes are checked before any device is asked.
    MINFER_TRY((*model)->build(GraphParams{}));
    return model;
  }
  return fail(ErrorCode::kUnsupported, fmt::format("unknown architecture '{}'", arch), path,
              fmt::format("this build knows {}", fmt::join(known_architectures(), ", ")));
}

}  // namespace minfer
