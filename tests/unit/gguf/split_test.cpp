// Split models: parts are found by name, joined in order, and checked against each other.
#include <gtest/gtest.h>

#include <cstring>

#include "gguf_bytes.h"

namespace minfer {
namespace {

struct PartSpec {
  uint16_t no = 0;
  uint16_t count = 3;
  int32_t tensors = 3;
  std::string tensor;  ///< the one tensor of the part
};

std::string part_bytes(const PartSpec& spec) {
  GgufWriter writer;
  if (spec.no == 0) writer.add("general.architecture", "llama");
  writer.add("split.no", spec.no);
  writer.add("split.count", spec.count);
  writer.add("split.tensors.count", spec.tensors);
  writer.add_tensor(spec.tensor, *find_type("F32"), std::vector<int64_t>{4});
  std::string bytes = writer.header();
  bytes.append(16, static_cast<char>('A' + spec.no));
  return bytes;
}

class Split : public testing::Test {
 protected:
  void write(int number, const PartSpec& spec, int of = 3) {
    char name[64];
    std::snprintf(name, sizeof(name), "m-%05d-of-%05d.gguf", number, of);
    folder_.write(name, part_bytes(spec));
  }
  void write_all() {
    write(1, {0, 3, 3, "a"});
    write(2, {1, 3, 3, "b"});
    write(3, {2, 3, 3, "c"});
  }
  Result<std::shared_ptr<const GgufFile>> open(int number, const GgufFile::Options& options = {}) {
    return GgufFile::open(folder_.path() / ("m-0000" + std::to_string(number) + "-of-00003.gguf"),
                          options);
  }
  void expect_error(ErrorCode code, std::string_view text, int number = 1) {
    const auto opened = open(number);
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().code, code);
    EXPECT_NE(opened.error().message().find(text), std::string::npos) << opened.error().message();
  }

  TempFolder folder_;
};

TEST_F(Split, AnyPartOpensTheWholeModel) {
  write_all();
  for (int named = 1; named <= 3; ++named) {
    const auto opened = open(named);
    ASSERT_TRUE(opened) << opened.error().message();
    const GgufFile& file = **opened;
    EXPECT_EQ(file.mappings().size(), 3u);
    EXPECT_EQ(file.require_string("general.architecture").value(), "llama");
    ASSERT_EQ(file.tensors().size(), 3u);
    for (int i = 0; i < 3; ++i) {
      const GgufTensor* tensor = file.tensor(std::string(1, static_cast<char>('a' + i)));
      ASSERT_NE(tensor, nullptr);
      EXPECT_EQ(tensor->file, static_cast<uint32_t>(i));
      EXPECT_EQ(file.data(*tensor)[0], 'A' + i);
    }
  }
}

TEST_F(Split, PartsCanBeOpenedAlone) {
  write(2, {1, 3, 3, "b"});
  const auto opened = open(2, {.follow_splits = false});
  ASSERT_TRUE(opened) << opened.error().message();
  EXPECT_EQ((*opened)->tensors().size(), 1u);
}

TEST_F(Split, MissingPartIsNamed) {
  write(1, {0, 3, 3, "a"});
  expect_error(ErrorCode::kNotFound,
               "m-00002-of-00003.gguf: 2 of the 3 parts of this split model are missing");
}

TEST_F(Split, RenamedPartSaysWhatTheNameShouldBe) {
  const auto path = folder_.write("model.gguf", part_bytes({0, 3, 3, "a"}));
  const auto opened = GgufFile::open(path);
  ASSERT_FALSE(opened);
  EXPECT_NE(opened.error().message().find("expected a name that ends in '-00001-of-00003.gguf'"),
            std::string::npos)
      << opened.error().message();
}

TEST_F(Split, NumberBeyondTheCount) {
  write(1, {3, 3, 3, "a"});
  expect_error(ErrorCode::kBadModel, "split.no is 3 and split.count is 3");
}

TEST_F(Split, TooManyParts) {
  write(1, {0, 60000, 3, "a"});
  expect_error(ErrorCode::kBadModel, "split.count is 60000");
}

TEST_F(Split, PartsOfDifferentSplits) {
  write_all();
  write(2, {1, 4, 3, "b"});
  expect_error(ErrorCode::kBadModel, "says split.no 1, split.count 4");
}

TEST_F(Split, PartsInTheWrongPlace) {
  write_all();
  write(2, {2, 3, 3, "b"});
  expect_error(ErrorCode::kBadModel, "m-00002-of-00003.gguf: says split.no 2");
}

TEST_F(Split, TensorInTwoParts) {
  write_all();
  write(3, {2, 3, 3, "a"});
  expect_error(ErrorCode::kBadModel, "m-00003-of-00003.gguf: tensor 'a' is also in ");
}

TEST_F(Split, TensorCountDiffers) {
  write(1, {0, 3, 5, "a"});
  write(2, {1, 3, 5, "b"});
  write(3, {2, 3, 5, "c"});
  expect_error(ErrorCode::kBadModel, "split.tensors.count is 5, but the 3 parts hold 3 tensors");
}

TEST_F(Split, DamagedPartIsNamed) {
  write_all();
  folder_.write("m-00002-of-00003.gguf", part_bytes({1, 3, 3, "b"}).substr(0, 100));
  expect_error(ErrorCode::kBadModel,
               "m-00002-of-00003.gguf: key 'split.tensors.count': the file is cut short");
}

TEST_F(Split, KeysOfTheWrongKind) {
  GgufWriter writer;
  writer.add("split.count", "three");
  const auto opened = GgufFile::open(folder_.write("x.gguf", writer.header()));
  ASSERT_FALSE(opened);
  EXPECT_NE(opened.error().message().find("key 'split.count': is not a non-negative integer"),
            std::string::npos);
}

TEST_F(Split, NegativeNumber) {
  GgufWriter writer;
  writer.add("split.no", int32_t{-1});
  const auto opened = GgufFile::open(folder_.write("x.gguf", writer.header()));
  ASSERT_FALSE(opened);
  EXPECT_NE(opened.error().message().find("key 'split.no': is not a non-negative integer"),
            std::string::npos);
}

}  // namespace
}  // namespace minfer
