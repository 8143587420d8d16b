// GgufFile::open: one mapped file, or all parts of a split model, joined into one view.
//
// A split model is NAME-00001-of-00003.gguf and its siblings; each part says its number
// (`split.no`, from 0), how many there are (`split.count`) and how many tensors all parts hold
// (`split.tensors.count`). The metadata is that of the first part. Any part may be named.
#include <fmt/format.h>

#include "gguf/mapped_file.h"
#include "gguf/name_index.h"
#include "gguf/parser.h"
#include "gguf/printable.h"
#include "minfer/gguf.h"

namespace minfer {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxParts = 4096;

struct SplitKeys {
  uint64_t no = 0;
  uint64_t count = 1;
  uint64_t tensors = 0;
};

struct Part {
  fs::path path;
  MappedFile file;
  ParsedGguf parsed;
  SplitKeys split;
};

/// A split.* number, which writers store as any integer kind.
Result<uint64_t> split_number(const Part& part, std::string_view key, uint64_t absent) {
  for (const auto& [name, value] : part.parsed.metadata) {
    if (name != key) continue;
    if (const auto* u = std::get_if<uint64_t>(&value.data)) return *u;
    const auto* i = std::get_if<int64_t>(&value.data);
    if (i != nullptr && *i >= 0) return static_cast<uint64_t>(*i);
    return fail(ErrorCode::kBadModel, "is not a non-negative integer",
                fmt::format("{}: key '{}'", part.path.string(), key), "split the model again");
  }
  return absent;
}

Result<Part> load_part(const fs::path& path, const GgufFile::Options& options) {
  MINFER_ASSIGN(MappedFile file, MappedFile::open(path));
  MINFER_ASSIGN(ParsedGguf parsed, parse_gguf(file.data(), file.size(), path.string(), options));
  Part part{path, std::move(file), std::move(parsed), {}};
  MINFER_ASSIGN(part.split.no, split_number(part, "split.no", 0));
  MINFER_ASSIGN(part.split.count, split_number(part, "split.count", 1));
  MINFER_ASSIGN(part.split.tensors, split_number(part, "split.tensors.count", 0));
  return part;
}

tl::unexpected<Error> bad_split(const fs::path& path, std::string what) {
  return fail(ErrorCode::kBadModel, std::move(what), path.string(),
              "all parts must come from one split of one model");
}

std::string part_suffix(uint64_t no, uint64_t count) {
  return fmt::format("-{:05}-of-{:05}.gguf", no + 1, count);
}

/// Paths of all parts, derived from the name of one of them.
Result<std::vector<fs::path>> part_paths(const Part& one) {
  const auto [no, count, tensors] = one.split;
  if (count > kMaxParts || no >= count) {
    return bad_split(one.path,
                     fmt::format("split.no is {} and split.count is {}, expected a number "
                                 "below the count and a count of at most {}",
                                 no, count, kMaxParts));
  }
  const std::string name = one.path.filename().string();
  const std::string suffix = part_suffix(no, count);
  if (!name.ends_with(suffix)) {
    return fail(ErrorCode::kBadModel,
                fmt::format("is part {} of {} of a split model, expected a name that ends in '{}'",
                            no + 1, count, suffix),
                one.path.string(), "give the parts back the names that the splitter chose");
  }
  const std::string prefix = name.substr(0, name.size() - suffix.size());
  std::vector<fs::path> paths;
  uint64_t missing = 0;
  fs::path first_missing;
  for (uint64_t i = 0; i < count; ++i) {
    paths.push_back(one.path.parent_path() / (prefix + part_suffix(i, count)));
    std::error_code ignored;
    if (fs::exists(paths.back(), ignored)) continue;
    if (missing++ == 0) first_missing = paths.back();
  }
  if (missing > 0) {
    return fail(ErrorCode::kNotFound,
                fmt::format("{} of the {} parts of this split model are missing", missing, count),
                first_missing.string(), "put all parts into one folder");
  }
  return paths;
}

/// The given file, or with `follow_splits` all parts of its model in order.
Result<std::vector<Part>> load_parts(const fs::path& path, const GgufFile::Options& options) {
  std::vector<Part> parts;
  MINFER_ASSIGN(Part named, load_part(path, options));
  if (named.split.count <= 1 || !options.follow_splits) {
    parts.push_back(std::move(named));
    return parts;
  }
  const SplitKeys expected = named.split;
  MINFER_ASSIGN(const std::vector<fs::path> paths, part_paths(named));
  uint64_t tensors = 0;
  for (uint64_t i = 0; i < expected.count; ++i) {
    if (i == expected.no) {
      parts.push_back(std::move(named));
    } else {
      MINFER_ASSIGN(Part part, load_part(paths[i], options));
      parts.push_back(std::move(part));
    }
    const SplitKeys& found = parts.back().split;
    if (found.no != i || found.count != expected.count || found.tensors != expected.tensors) {
      return bad_split(paths[i],
                       fmt::format("says split.no {}, split.count {}, split.tensors.count {}; "
                                   "expected {}, {}, {} as in {}",
                                   found.no, found.count, found.tensors, i, expected.count,
                                   expected.tensors, printable(path.filename().string())));
    }
    tensors += parts.back().parsed.tensors.size();
  }
  if (tensors != expected.tensors) {
    return bad_split(path,
                     fmt::format("split.tensors.count is {}, but the {} parts hold {} tensors",
                                 expected.tensors, expected.count, tensors));
  }
  return parts;
}

class MappedGguf final : public GgufFile {
 public:
  static Result<std::shared_ptr<const GgufFile>> create(const fs::path& path,
                                                        std::vector<Part> parts) {
    auto file = std::make_shared<MappedGguf>();
    file->path_ = path;
    file->version_ = parts.front().parsed.version;
    file->alignment_ = parts.front().parsed.alignment;
    file->metadata_ = std::move(parts.front().parsed.metadata);
    for (Part& part : parts) file->add(std::move(part));
    MINFER_TRY(file->index());
    return file;
  }

  const fs::path& path() const override { return path_; }
  uint32_t version() const override { return version_; }
  uint32_t alignment() const override { return alignment_; }
  std::span<const std::pair<std::string, GgufValue>> metadata() const override { return metadata_; }
  std::span<const GgufTensor> tensors() const override { return tensors_; }
  std::span<const GgufMapping> mappings() const override { return mappings_; }

  const GgufValue* find(std::string_view key) const override {
    const auto number = key_index_.find(key);
    return number ? &metadata_[*number].second : nullptr;
  }
  const GgufTensor* tensor(std::string_view name) const override {
    const auto number = tensor_index_.find(name);
    return number ? &tensors_[*number] : nullptr;
  }
  const uint8_t* data(const GgufTensor& tensor) const override {
    return mappings_[tensor.file].data + tensor.offset;
  }
  void release_pages(const GgufTensor& tensor) const override {
    files_[tensor.file].release(tensor.offset, tensor.bytes);
  }

 private:
  void add(Part&& part) {
    const auto number = static_cast<uint32_t>(files_.size());
    mappings_.push_back({part.path, part.file.data(), part.file.size()});
    files_.push_back(std::move(part.file));
    for (GgufTensor& tensor : part.parsed.tensors) {
      tensor.file = number;
      tensors_.push_back(std::move(tensor));
    }
  }

  /// Builds the look-up tables; fails on a tensor that two parts hold.
  Result<void> index() {
    std::vector<std::string_view> names;
    for (const auto& [key, value] : metadata_) names.push_back(key);
    key_index_ = NameIndex(names);
    names.clear();
    for (const GgufTensor& tensor : tensors_) names.push_back(tensor.name);
    tensor_index_ = NameIndex(names);
    const auto twice = tensor_index_.repeated();
    if (!twice) return {};
    return bad_split(path_of(tensors_[twice->second]),
                     fmt::format("tensor {} is also in {}", printable(names[twice->first]),
                                 path_of(tensors_[twice->first]).string()));
  }

  const fs::path& path_of(const GgufTensor& tensor) const { return mappings_[tensor.file].path; }

  fs::path path_;
  uint32_t version_ = 0;
  uint32_t alignment_ = 0;
  std::vector<MappedFile> files_;
  std::vector<GgufMapping> mappings_;
  std::vector<std::pair<std::string, GgufValue>> metadata_;
  std::vector<GgufTensor> tensors_;
  // Views of the names above, which no longer move.
  NameIndex key_index_;
  NameIndex tensor_index_;
};

}  // namespace

Result<std::shared_ptr<const GgufFile>> GgufFile::open(const std::filesystem::path& path,
                                                       const Options& options) {
  MINFER_ASSIGN(std::vector<Part> parts, load_parts(path, options));
  return MappedGguf::create(path, std::move(parts));
}

}  // namespace minfer
