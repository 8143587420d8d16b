#include "plugin/abi_text.h"

#include <gtest/gtest.h>

#include <vector>

#include "minfer/plugin_abi.h"

namespace minfer {
namespace {

TEST(AbiText, ReadsTextThatEndsWithinItsBounds) {
  const char text[8] = "seven77";
  EXPECT_EQ(checked_text(text, sizeof(text)), "seven77");
  EXPECT_EQ(checked_text("", 8), "");
  const char full[4] = {'f', 'u', 'l', 'l'};
  EXPECT_EQ(checked_text(full, sizeof(full)), std::nullopt);
  EXPECT_EQ(checked_text(nullptr, 8), std::nullopt);
}

TEST(AbiText, RefusesWhatIsNoPrintableUtf8) {
  for (const char* good : {"Zürich", "模型", "𝄞", "a b"}) EXPECT_EQ(checked_text(good, 64), good);
  for (const char* bad : {"\n", "\x1b[0m", "\x7f", "\x80", "\xc3", "\xc0\xaf", "\xe0\x80\x80",
                          "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xc3("})
    EXPECT_EQ(checked_text(bad, 64), std::nullopt) << bad;
}

TEST(AbiText, CleansTextForMessages) {
  EXPECT_EQ(clean_text("  two\nlines \n", 64), "two lines");
  EXPECT_EQ(clean_text("bell\a \xff", 64), "bell? ?");
  EXPECT_EQ(clean_text("cut here", 3), "cut");
  EXPECT_EQ(clean_text(nullptr, 3), "");
  EXPECT_EQ(clean_text("\n\n", 3), "");
}

TEST(AbiStruct, TakesZeroForWhatASmallerStructLacks) {
  minfer_memory memory;
  std::memset(&memory, 0xee, sizeof(memory));
  memory.struct_size = offsetof(minfer_memory, held);
  memory.total = 5;
  const auto copy = read_struct<minfer_memory>(&memory);
  EXPECT_EQ(copy.total, 5u);
  EXPECT_EQ(copy.held, 0u);
  EXPECT_EQ(copy.overhead, 0u);
}

TEST(AbiStruct, ReadsNoMoreOfALargerStructThanItKnows) {
  std::vector<char> bytes(sizeof(minfer_memory) + 100, 0);
  const uint32_t size = static_cast<uint32_t>(bytes.size());
  std::memcpy(bytes.data(), &size, sizeof(size));
  EXPECT_EQ(read_struct<minfer_memory>(bytes.data()).struct_size, size);
  // A stride smaller than the stated size wins.
  std::memset(bytes.data() + 4, 0x11, bytes.size() - 4);
  EXPECT_EQ(read_struct<minfer_memory>(bytes.data(), 16).free, 0u);
}

}  // namespace
}  // namespace minfer
