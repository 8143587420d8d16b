// The writer's own duties: streaming in pieces, order, and no half-written file under the final
// name.
#include <gtest/gtest.h>

#include "gguf_bytes.h"

namespace minfer {
namespace {

TEST(Writer, StreamsTensorsInPieces) {
  const TempFolder folder;
  const auto path = folder.path() / "w.gguf";
  GgufWriter writer(64);
  writer.add("n", uint32_t{5});
  writer.add_tensor("a", *find_type("F32"), std::vector<int64_t>{10});
  writer.add_tensor("b", *find_type("Q4_0"), std::vector<int64_t>{32, 2});
  ASSERT_TRUE(writer.open(path));
  EXPECT_FALSE(std::filesystem::exists(path));
  const std::vector<uint8_t> ones(40, 1);
  const std::vector<uint8_t> twos(36, 2);
  ASSERT_TRUE(writer.write(std::span(ones).first(7)));
  EXPECT_FALSE(writer.finish());
  ASSERT_TRUE(writer.write(std::span(ones).subspan(7)));
  ASSERT_TRUE(writer.write(twos));
  EXPECT_FALSE(writer.write(twos)) << "more than declared";
  ASSERT_TRUE(writer.finish());
  EXPECT_FALSE(std::filesystem::exists(path.string() + ".part"));

  const auto opened = GgufFile::open(path);
  ASSERT_TRUE(opened) << opened.error().message();
  EXPECT_EQ((*opened)->alignment(), 64u);
  const GgufTensor* b = (*opened)->tensor("b");
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(b->bytes, 36u);
  EXPECT_EQ((*opened)->data(*b)[0], 2);
  EXPECT_EQ((*opened)->data(*b)[35], 2);
}

TEST(Writer, APieceMayNotReachIntoTheNextTensor) {
  const TempFolder folder;
  GgufWriter writer;
  writer.add_tensor("a", *find_type("F32"), std::vector<int64_t>{8});
  writer.add_tensor("b", *find_type("F32"), std::vector<int64_t>{8});
  ASSERT_TRUE(writer.open(folder.path() / "w.gguf"));
  EXPECT_FALSE(writer.write(std::vector<uint8_t>(33)));
}

TEST(Writer, AnAbandonedFileLeavesNothing) {
  const TempFolder folder;
  {
    GgufWriter writer;
    writer.add_tensor("a", *find_type("F32"), std::vector<int64_t>{8});
    ASSERT_TRUE(writer.open(folder.path() / "w.gguf"));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(Writer, AFolderThatIsNotThereIsAnError) {
  GgufWriter writer;
  const auto opened = writer.open("/nonexistent/folder/w.gguf");
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, ErrorCode::kIo);
}

}  // namespace
}  // namespace minfer
