// Typed look-ups: what each accepts, and what it says otherwise.
#include <gtest/gtest.h>

#include <cmath>

#include "gguf_bytes.h"

namespace minfer {
namespace {

class Getters : public testing::Test {
 protected:
  void SetUp() override {
    GgufWriter writer;
    writer.add("u8", uint8_t{7});
    writer.add("i32", int32_t{42});
    writer.add("negative", int32_t{-3});
    writer.add("huge", UINT64_MAX);
    writer.add("f32", 0.5f);
    writer.add("nan", std::nanf(""));
    writer.add("flag", true);
    writer.add("text", "abc");
    const std::vector<std::string> strings = {"x", "y"};
    writer.add_array("strings", std::span<const std::string>(strings));
    const std::vector<float> floats = {1, 2};
    writer.add_array("floats", std::span<const float>(floats));
    const std::vector<float> infinite = {1, HUGE_VALF};
    writer.add_array("infinite", std::span<const float>(infinite));
    const std::vector<uint32_t> uints = {1, 4000000000};
    writer.add_array("uints", std::span<const uint32_t>(uints));
    const std::vector<uint64_t> large = {0, UINT64_MAX};
    writer.add_array("large", std::span<const uint64_t>(large));
    const std::vector<int8_t> ints = {-1, 1};
    writer.add_array("ints", std::span<const int8_t>(ints));
    const auto opened = GgufFile::open(folder_.write("a.gguf", writer.header()));
    ASSERT_TRUE(opened) << opened.error().message();
    file_ = *opened;
  }

  template <class T>
  static void expect_error(const Result<T>& result, std::string_view key, std::string_view what) {
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, ErrorCode::kBadModel);
    EXPECT_NE(result.error().where.find("a.gguf: key '" + std::string(key) + "'"),
              std::string::npos)
        << result.error().message();
    EXPECT_NE(result.error().what.find(what), std::string::npos) << result.error().message();
  }

  TempFolder folder_;
  std::shared_ptr<const GgufFile> file_;
};

TEST_F(Getters, AbsentKeysGiveNothingOrAreRequired) {
  EXPECT_EQ(file_->get_uint("absent").value(), std::nullopt);
  EXPECT_EQ(file_->get_float("absent").value(), std::nullopt);
  EXPECT_EQ(file_->get_bool("absent").value(), std::nullopt);
  EXPECT_EQ(file_->get_string("absent").value(), std::nullopt);
  EXPECT_EQ(file_->get_strings("absent").value(), std::nullopt);
  EXPECT_EQ(file_->get_floats("absent").value(), std::nullopt);
  EXPECT_EQ(file_->get_ints("absent").value(), std::nullopt);
  expect_error(file_->require_uint("absent"), "absent", "is missing");
  expect_error(file_->require_float("absent"), "absent", "is missing");
  expect_error(file_->require_string("absent"), "absent", "is missing");
}

TEST_F(Getters, UintTakesAnyIntegerKindInRange) {
  EXPECT_EQ(file_->get_uint("u8").value(), 7u);
  EXPECT_EQ(file_->get_uint("i32").value(), 42u);
  EXPECT_EQ(file_->get_uint("huge").value(), UINT64_MAX);
  EXPECT_EQ(file_->require_uint("i32", 42).value(), 42u);
  expect_error(file_->get_uint("i32", 41), "i32", "is 42, expected 0 to 41");
  expect_error(file_->get_uint("negative"), "negative", "is -3, expected 0 to");
  expect_error(file_->get_uint("f32"), "f32", "is f32, expected an integer");
  expect_error(file_->get_uint("flag"), "flag", "is bool, expected an integer");
  expect_error(file_->require_uint("ints"), "ints", "is array of 2 i8, expected an integer");
}

TEST_F(Getters, FloatsMustBeFinite) {
  EXPECT_EQ(file_->get_float("f32").value(), 0.5);
  EXPECT_EQ(file_->require_float("f32").value(), 0.5);
  expect_error(file_->get_float("nan"), "nan", "is nan, expected a finite number");
  expect_error(file_->get_float("u8"), "u8", "is u8, expected f32 or f64");
  EXPECT_EQ(file_->get_floats("floats").value(), (std::vector<double>{1, 2}));
  expect_error(file_->get_floats("infinite"), "infinite", "element 1 is inf");
  expect_error(file_->get_floats("ints"), "ints", "expected an array of f32 or f64");
}

TEST_F(Getters, OtherKinds) {
  EXPECT_EQ(file_->get_bool("flag").value(), true);
  expect_error(file_->get_bool("u8"), "u8", "is u8, expected bool");
  EXPECT_EQ(file_->get_string("text").value(), "abc");
  EXPECT_EQ(file_->require_string("text").value(), "abc");
  expect_error(file_->get_string("strings"), "strings", "is array of 2 string, expected a string");
  EXPECT_EQ(file_->get_strings("strings").value(), (std::vector<std::string_view>{"x", "y"}));
  expect_error(file_->get_strings("text"), "text", "is string, expected an array of strings");
  EXPECT_EQ(file_->get_ints("uints").value(), (std::vector<int64_t>{1, 4000000000}));
  EXPECT_EQ(file_->get_ints("ints").value(), (std::vector<int64_t>{-1, 1}));
  expect_error(file_->get_ints("large"), "large", "element 1 is 18446744073709551615");
  expect_error(file_->get_ints("floats"), "floats", "expected an array of integers");
}

}  // namespace
}  // namespace minfer
