// Random damage to a small valid file: the parser answers, and never reads outside the bytes, hangs
// or allocates beyond its bounds. Run under AddressSanitizer to make it count; the seed is fixed.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <random>

#include "gguf/parser.h"
#include "gguf_bytes.h"

namespace minfer {
namespace {

/// Parses a copy that ends where its allocation ends, so that a read past the end is caught.
Result<ParsedGguf> parse_exact(const std::string& bytes) {
  const auto copy = std::make_unique<uint8_t[]>(bytes.size());
  std::memcpy(copy.get(), bytes.data(), bytes.size());
  auto parsed = parse_gguf(copy.get(), bytes.size(), "fuzz.gguf", {});
  if (!parsed) {
    EXPECT_FALSE(parsed.error().what.empty());
    EXPECT_NE(parsed.error().where.find("fuzz.gguf"), std::string::npos);
    return parsed;
  }
  // What was accepted must be usable without further checks.
  uint64_t sum = 0;
  for (const GgufTensor& tensor : parsed->tensors) {
    EXPECT_LE(tensor.offset, bytes.size());
    EXPECT_LE(tensor.bytes, bytes.size() - tensor.offset);
    if (tensor.bytes > 0) sum += copy[tensor.offset] + copy[tensor.offset + tensor.bytes - 1];
  }
  for (const auto& [key, value] : parsed->metadata) {
    if (const auto* text = std::get_if<std::string_view>(&value.data)) {
      for (const char c : *text) sum += static_cast<uint8_t>(c);
    }
    if (const auto* texts = std::get_if<std::vector<std::string_view>>(&value.data)) {
      for (const std::string_view text : *texts) sum += text.empty() ? 0 : text.back();
    }
  }
  EXPECT_NE(sum, UINT64_MAX);
  return parsed;
}

TEST(Mutation, EveryTruncationIsAnError) {
  const std::string whole = small_model();
  ASSERT_TRUE(parse_exact(whole));
  // The last tensor ends at the last byte, so that no shorter file is whole.
  for (size_t size = 1; size < whole.size(); ++size) {
    const auto parsed = parse_exact(whole.substr(0, size));
    ASSERT_FALSE(parsed) << size;
    EXPECT_NE(parsed.error().what.find("missing"), std::string::npos)
        << size << ": " << parsed.error().message();
  }
}

TEST(Mutation, RandomBytes) {
  const std::string whole = small_model();
  std::mt19937_64 random(20240607);
  const size_t header = whole.size() - 900;  // damage to tensor data is not for the parser to see
  int accepted = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes = whole;
    const int edits = 1 + static_cast<int>(random() % 8);
    for (int e = 0; e < edits; ++e) bytes[random() % header] = static_cast<char>(random());
    if (random() % 4 == 0) bytes.resize(random() % bytes.size() + 1);
    accepted += parse_exact(bytes).has_value();
  }
  // Both answers occur, so that the loop reaches past the first check.
  EXPECT_GT(accepted, 100);
  EXPECT_LT(accepted, 19'900);
}

TEST(Mutation, InterestingNumbers) {
  const std::string whole = small_model();
  const uint64_t numbers[] = {
      0,          1,          0x7f,       0x80,       0xff,        0xffff,     0x7fffffff,
      0x80000000, 0xffffffff, 1ull << 32, 1ull << 60, 1ull << 61,  1ull << 62, (1ull << 63) - 1,
      1ull << 63, ~0ull,      ~0ull - 7,  ~0ull - 31, whole.size()};
  for (size_t at = 4; at + 8 <= whole.size() - 900; ++at) {
    for (const uint64_t number : numbers) {
      for (const size_t width : {4u, 8u}) {
        std::string bytes = whole;
        std::memcpy(bytes.data() + at, &number, width);
        parse_exact(bytes);
      }
    }
  }
}

TEST(Mutation, BlocksMovedAbout) {
  const std::string whole = small_model();
  std::mt19937_64 random(7);
  for (int i = 0; i < 5'000; ++i) {
    std::string bytes = whole;
    const size_t length = random() % 64 + 1;
    const size_t from = random() % (bytes.size() - length);
    const std::string block = bytes.substr(from, length);
    if (random() % 2 == 0) bytes.erase(from, length);
    bytes.insert(random() % bytes.size(), block);
    parse_exact(bytes);
  }
}

}  // namespace
}  // namespace minfer
