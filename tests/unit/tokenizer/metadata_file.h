// A GGUF file of metadata alone, held in memory: what tokenizer tests and fuzzing build
// vocabularies of.
//
// Single-threaded while values are set; owns its strings.
#pragma once

#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "minfer/gguf.h"
#include "text/tokenizer/byte_map.h"

namespace minfer::test {

class MetadataFile final : public GgufFile {
 public:
  void set(const std::string& key, std::string_view text) {
    put(key, GgufKind::kString, GgufKind::kString, keep(text));
  }
  void set(const std::string& key, const char* text) { set(key, std::string_view(text)); }
  void set(const std::string& key, uint64_t value) {
    put(key, GgufKind::kU32, GgufKind::kU32, value);
  }
  void set(const std::string& key, bool value) {
    put(key, GgufKind::kBool, GgufKind::kBool, value);
  }
  void set(const std::string& key, const std::vector<std::string>& texts) {
    std::vector<std::string_view> kept;
    for (const std::string& text : texts) kept.push_back(keep(text));
    put(key, GgufKind::kArray, GgufKind::kString, std::move(kept));
  }
  void set(const std::string& key, std::vector<int64_t> values) {
    put(key, GgufKind::kArray, GgufKind::kI32, std::move(values));
  }
  void set(const std::string& key, std::vector<double> values) {
    put(key, GgufKind::kArray, GgufKind::kF32, std::move(values));
  }
  void erase(std::string_view key) {
    std::erase_if(metadata_, [&](const auto& entry) { return entry.first == key; });
  }

  const std::filesystem::path& path() const override { return path_; }
  uint32_t version() const override { return 3; }
  uint32_t alignment() const override { return 32; }
  std::span<const std::pair<std::string, GgufValue>> metadata() const override { return metadata_; }
  const GgufValue* find(std::string_view key) const override {
    for (const auto& [name, value] : metadata_) {
      if (name == key) return &value;
    }
    return nullptr;
  }
  std::span<const GgufTensor> tensors() const override { return {}; }
  const GgufTensor* tensor(std::string_view) const override { return nullptr; }
  const uint8_t* data(const GgufTensor&) const override { return nullptr; }
  std::span<const GgufMapping> mappings() const override { return {}; }
  void release_pages(const GgufTensor&) const override {}

 private:
  template <class T>
  void put(const std::string& key, GgufKind kind, GgufKind element, T data) {
    erase(key);
    metadata_.emplace_back(key, GgufValue{kind, element, std::move(data)});
  }
  std::string_view keep(std::string_view text) { return texts_.emplace_back(text); }

  std::filesystem::path path_ = "test.gguf";
  std::vector<std::pair<std::string, GgufValue>> metadata_;
  std::deque<std::string> texts_;
};

inline constexpr const char* kModelKey = "tokenizer.ggml.model";
inline constexpr const char* kPreKey = "tokenizer.ggml.pre";
inline constexpr const char* kTokensKey = "tokenizer.ggml.tokens";
inline constexpr const char* kTypesKey = "tokenizer.ggml.token_type";
inline constexpr const char* kScoresKey = "tokenizer.ggml.scores";
inline constexpr const char* kMergesKey = "tokenizer.ggml.merges";

/// A vocabulary in the making: tokens with types and scores.
struct VocabBuilder {
  std::vector<std::string> tokens;
  std::vector<int64_t> types;
  std::vector<double> scores;

  int32_t add(std::string text, int64_t type = 1, double score = 0) {
    tokens.push_back(std::move(text));
    types.push_back(type);
    scores.push_back(score);
    return static_cast<int32_t>(tokens.size() - 1);
  }
  void store(MetadataFile& file) const {
    file.set(kTokensKey, tokens);
    file.set(kTypesKey, types);
    file.set(kScoresKey, scores);
  }
};

/// A byte-level BPE file: 256 byte tokens (ids 0 to 255), then what each merge makes, then
/// `special` tokens with their types.
inline MetadataFile bpe_file(const std::vector<std::string>& merges,
                             const std::vector<std::pair<std::string, int64_t>>& special = {},
                             const char* pre = "gpt-2") {
  VocabBuilder vocab;
  for (int b = 0; b < 256; ++b) {
    vocab.add(std::string(tok::byte_spelling(static_cast<uint8_t>(b))));
  }
  for (const std::string& merge : merges) {
    std::string joined = merge;
    joined.erase(joined.find(' '), 1);
    vocab.add(joined);
  }
  for (const auto& [text, type] : special) vocab.add(text, type);
  MetadataFile file;
  file.set(kModelKey, "gpt2");
  file.set(kPreKey, pre);
  vocab.store(file);
  file.set(kMergesKey, merges);
  return file;
}

/// A SentencePiece file: <unk>, <s>, </s>, 256 byte tokens (ids 3 to 258), then `pieces` with
/// scores.
inline MetadataFile spm_file(const std::vector<std::pair<std::string, double>>& pieces,
                             const std::vector<std::pair<std::string, int64_t>>& special = {}) {
  VocabBuilder vocab;
  vocab.add("<unk>", 2);
  vocab.add("<s>", 3);
  vocab.add("</s>", 3);
  for (int b = 0; b < 256; ++b) {
    constexpr const char* kHex = "0123456789ABCDEF";
    vocab.add(std::string("<0x") + kHex[b / 16] + kHex[b % 16] + ">", 6);
  }
  for (const auto& [text, score] : pieces) vocab.add(text, 1, score);
  for (const auto& [text, type] : special) vocab.add(text, type);
  MetadataFile file;
  file.set(kModelKey, "llama");
  vocab.store(file);
  return file;
}

}  // namespace minfer::test
