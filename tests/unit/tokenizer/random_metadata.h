// Tokenizer metadata made of arbitrary bytes, and what must hold whatever it says.
//
// Shared by the libFuzzer target and by the mutation test, which works without clang. Pure
// functions of their input.
#pragma once

#include <cstdlib>
#include <cstring>

#include "metadata_file.h"
#include "minfer/tokenizer.h"
#include "text/tokenizer/pre_rules.h"

namespace minfer::test {

/// Reads values from bytes; past the end everything is zero.
class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : bytes_(bytes) {}

  bool empty() const { return bytes_.empty(); }
  uint8_t u8() {
    if (bytes_.empty()) return 0;
    const auto value = static_cast<uint8_t>(bytes_[0]);
    bytes_.remove_prefix(1);
    return value;
  }
  uint32_t u32() { return u8() | u8() << 8 | u8() << 16 | static_cast<uint32_t>(u8()) << 24; }
  float f32() {
    const uint32_t bits = u32();
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }
  std::string text(size_t length) {
    const std::string out(bytes_.substr(0, length));
    bytes_.remove_prefix(out.size());
    return out;
  }
  std::string rest() { return text(bytes_.size()); }

 private:
  std::string_view bytes_;
};

inline constexpr const char* kTokenizerKeys[] = {kModelKey,
                                                 kPreKey,
                                                 kTokensKey,
                                                 kTypesKey,
                                                 kScoresKey,
                                                 kMergesKey,
                                                 "general.name",
                                                 "tokenizer.ggml.bos_token_id",
                                                 "tokenizer.ggml.eos_token_id",
                                                 "tokenizer.ggml.eot_token_id",
                                                 "tokenizer.ggml.eom_token_id",
                                                 "tokenizer.ggml.unknown_token_id",
                                                 "tokenizer.ggml.add_bos_token",
                                                 "tokenizer.ggml.add_eos_token",
                                                 "tokenizer.ggml.add_space_prefix"};

/// Sets, breaks or removes one key.
inline void mutate(MetadataFile& file, ByteReader& in) {
  const std::string key = kTokenizerKeys[in.u8() % std::size(kTokenizerKeys)];
  const auto known_rules = tok::all_pre_rules();
  switch (in.u8() % 10) {
    case 0:
      return file.erase(key);
    case 1:
      return file.set(key, uint64_t{in.u8()});
    case 2:
      return file.set(key, uint64_t{in.u32()});
    case 3:
      return file.set(key, in.u8() % 2 == 0);
    case 4:
      return file.set(key, std::string_view(in.text(in.u8() % 16)));
    case 5:
      return file.set(kPreKey, known_rules[in.u8() % known_rules.size()].names[0]);
    case 6: {
      std::vector<std::string> texts;
      for (size_t n = in.u8() % 32; n > 0; --n) texts.push_back(in.text(in.u8() % 8));
      return file.set(key, texts);
    }
    case 7: {
      std::vector<int64_t> values;
      for (size_t n = in.u8(); n > 0; --n) values.push_back(static_cast<int8_t>(in.u8()));
      return file.set(key, std::move(values));
    }
    case 8: {
      std::vector<double> values;
      for (size_t n = in.u8(); n > 0; --n) values.push_back(in.f32());
      return file.set(key, std::move(values));
    }
    default:
      return file.set("general.name", "phi-3");
  }
}

/// A file whose vocabulary, merges, types and scores the bytes choose freely.
inline MetadataFile metadata_from(ByteReader& in) {
  VocabBuilder vocab;
  const bool bpe = in.u8() % 2 == 0;
  for (size_t n = in.u8() % 64; n > 0; --n) {
    std::string token = in.text(in.u8() % 10);
    if (bpe && in.u8() % 4 != 0) {
      std::string spelling;
      tok::append_spelling(token, spelling);
      token = spelling;
    }
    vocab.add(token, in.u8() % 8, in.f32());
  }
  MetadataFile file;
  file.set(kModelKey, bpe ? "gpt2" : "llama");
  file.set(kPreKey, "gpt-2");
  vocab.store(file);
  std::vector<std::string> merges;
  for (size_t n = in.u8() % 64; n > 0 && !vocab.tokens.empty(); --n) {
    merges.push_back(vocab.tokens[in.u8() % vocab.tokens.size()] + " " +
                     vocab.tokens[in.u8() % vocab.tokens.size()]);
  }
  file.set(kMergesKey, merges);
  for (size_t n = in.u8() % 4; n > 0; --n) mutate(file, in);
  return file;
}

/// Ends the process unless `condition` holds, where both GoogleTest and libFuzzer see it.
inline void must(bool condition) {
  if (!condition) std::abort();
}

/// Builds a tokenizer and runs text through it. Metadata gives a tokenizer or an error that says
/// where; ids are in range; text of messages never becomes a control token.
inline void exercise(const GgufFile& file, std::string_view text) {
  const auto created = Tokenizer::create(file);
  if (!created) {
    must(created.error().code == ErrorCode::kTokenizer ||
         created.error().code == ErrorCode::kUnsupported);
    must(!created.error().what.empty() && !created.error().where.empty());
    return;
  }
  const Tokenizer& tokenizer = **created;
  const auto valid = [&](TokenId id) {
    return id >= 0 && static_cast<uint32_t>(id) < tokenizer.vocab_size();
  };
  for (const TokenId id : tokenizer.end_tokens()) must(valid(id));
  for (const TokenId id : tokenizer.encode(text, false, false)) {
    must(valid(id) && !tokenizer.is_control(id));
  }
  const size_t half = text.size() / 2;
  const std::vector<TextSegment> segments{{std::string(text.substr(0, half)), true},
                                          {std::string(text.substr(half)), false},
                                          {std::string(text), true}};
  StreamDecoder decoder(*created, true);
  for (const TokenId id : tokenizer.encode(segments, true)) {
    must(valid(id));
    decoder.push(id);
  }
  decoder.finish();
  must(tokenizer.find_token(tokenizer.token_text(0)) >= (tokenizer.token_text(0).empty() ? -1 : 0));
}

}  // namespace minfer::test
