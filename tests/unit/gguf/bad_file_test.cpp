// One row per way in which a GGUF file can be wrong, with the code and words that a person gets.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "gguf_bytes.h"

namespace minfer {
namespace {

constexpr uint64_t kHuge = UINT64_MAX;
constexpr auto kBad = ErrorCode::kBadModel;
constexpr auto kNo = ErrorCode::kUnsupported;
constexpr uint32_t kF32 = 0;
constexpr uint32_t kQ4_0 = 2;
constexpr uint32_t kQ4K = 12;

struct BadFile {
  std::string name;
  std::string bytes;
  ErrorCode code;
  std::vector<std::string> says;  ///< all of these stand in the message
};

GgufBytes keys(uint64_t n) {
  return GgufBytes(3, 0, n);
}
GgufBytes tensors(uint64_t n) {
  return GgufBytes(3, n, 0);
}
GgufBytes raw(std::string_view text) {
  return GgufBytes().text(text);
}

/// A file with one key `k` of a scalar kind, then nothing.
GgufBytes one_key(GgufKind kind) {
  return keys(1).key("k", kind);
}

/// A file with one tensor `t` and plenty of data.
std::string one_tensor(const std::vector<uint64_t>& ne, uint32_t type, uint64_t offset = 0) {
  return tensors(1).tensor("t", ne, type, offset).pad().zeros(4096);
}

template <class T>
std::string aligned_to(GgufKind kind, T alignment) {
  return keys(1).key("general.alignment", kind).put(alignment);
}

std::vector<BadFile> header_cases() {
  return {
      {"empty", "", kBad, {"the file is empty", "download it again"}},
      {"one_byte", "G", kBad, {"cut short", "missing"}},
      {"half_magic", "GG", kBad, {"cut short", "missing"}},
      {"wrong_magic", "ABCDEFGHIJKL", kBad, {"does not start with 'GGUF', found 'ABCD'"}},
      {"binary_magic", std::string("\x00\x1b[31m", 6), kBad, {"found '\\x00\\x1b[3'"}},
      {"reversed_magic", "FUGG\0\0\0\0", kNo, {"big-endian", "expected a little-endian"}},
      {"old_ggml", "tjggxxxxxxxx", kBad, {"GGML file from before GGUF"}},
      {"safetensors",
       raw(std::string_view("\x40\0\0\0\0\0\0\0{\"a\":1}", 15)),
       kBad,
       {"safetensors"}},
      {"web_page", "<!DOCTYPE html><html>", kBad, {"web page"}},
      {"lfs_pointer", "version https://git-lfs.github.com/spec/v1\n", kBad, {"git lfs pull"}},
      {"zip", raw("PK\x03\x04 etc etc"), kBad, {"zip archive"}},
      {"gzip", raw("\x1f\x8b etc etc"), kBad, {"gzip archive"}},
      {"version_0", GgufBytes(0, 0, 0), kNo, {"version 0 is unknown, expected 2 or 3"}},
      {"version_1", GgufBytes(1, 0, 0), kNo, {"version 1 is not read, expected 2 or 3"}},
      {"version_4", GgufBytes(4, 0, 0), kNo, {"version 4 is unknown", "newer minfer"}},
      {"version_big_endian", GgufBytes(0x03000000, 0, 0), kNo, {"big-endian (version 3)"}},
      {"cut_in_version",
       raw(std::string_view("GGUF\3\0", 6)),
       kBad,
       {"in the version: 4 bytes are needed", "2 bytes are missing"}},
      {"cut_in_tensor_count",
       raw("GGUF").put(3u).put(uint16_t{0}),
       kBad,
       {"the number of tensors", "6 bytes are missing"}},
      {"cut_in_key_count",
       raw("GGUF").put(3u).put(uint64_t{0}),
       kBad,
       {"the number of keys", "8 bytes are missing"}},
      {"too_many_tensors",
       GgufBytes(3, 1 << 20, 0),
       kBad,
       {"declares 1048576 tensors, expected at most"}},
      {"endless_tensors", GgufBytes(3, kHuge, 0), kBad, {"declares 18446744073709551615 tensors"}},
      {"too_many_keys",
       GgufBytes(3, 0, 1 << 20),
       kBad,
       {"declares 1048576 metadata keys, expected at most 65536"}},
      {"endless_keys", GgufBytes(3, 0, kHuge), kBad, {"metadata keys"}},
      {"keys_not_there", keys(1000).zeros(20), kBad, {"in metadata of 1000 keys: ", "missing"}},
      {"tensors_not_there",
       tensors(1000).zeros(20),
       kBad,
       {"in the list of 1000 tensors: ", "missing"}},
  };
}

std::vector<BadFile> key_cases() {
  const std::string long_name(70'000, 'k');
  return {
      {"key_length_beyond_end",
       keys(1).put(uint64_t{500}).text("general.name").zeros(9),
       kBad,
       {"metadata key 1 of 1", "in its name: 500 bytes are needed", "479 bytes are missing"}},
      {"key_length_endless",
       keys(1).put(kHuge).zeros(30),
       kBad,
       {"metadata key 1 of 1", "18446744073709551615"}},
      {"key_empty",
       keys(1).string("").put(0u).zeros(9),
       kBad,
       {"metadata key 1 of 1: the name is empty"}},
      {"key_too_long",
       keys(1).key(long_name, GgufKind::kU8).put(uint8_t{1}),
       kBad,
       {"the name has 70000 bytes, expected at most 65535"}},
      {"key_twice",
       keys(2).key("k", GgufKind::kU32).put(1u).key("k", GgufKind::kU32).put(1u),
       kBad,
       {"key 'k': is given twice"}},
      {"key_with_escapes",
       keys(1).key("a\x1b]0;x\n", GgufKind{99}).zeros(8),
       kBad,
       {"key 'a\\x1b]0;x\\x0a': has value kind 99"}},
      {"kind_cut",
       keys(1).string("key").put(uint16_t{0}).text("x"),
       kBad,
       {"key 'key'", "in its kind: 4 bytes are needed"}},
      {"kind_unknown",
       one_key(GgufKind{13}).zeros(8),
       kBad,
       {"key 'k': has value kind 13, expected 0 to 12"}},
      {"kind_endless", one_key(GgufKind{0xffffffff}).zeros(8), kBad, {"has value kind 4294967295"}},
      {"u32_cut",
       one_key(GgufKind::kU32).put(uint8_t{1}),
       kBad,
       {"key 'k'", "in its value: 4 bytes are needed", "3 bytes are missing"}},
      {"u64_cut",
       one_key(GgufKind::kU64).put(1u),
       kBad,
       {"in its value: 8 bytes are needed", "4 bytes are missing"}},
      {"f64_cut", one_key(GgufKind::kF64).put(1.0f), kBad, {"in its value: 8 bytes are needed"}},
      {"bool_of_2",
       one_key(GgufKind::kBool).put(uint8_t{2}),
       kBad,
       {"key 'k': is a bool with value 2, expected 0 or 1"}},
      {"string_length_cut",
       one_key(GgufKind::kString).put(1u),
       kBad,
       {"in its text: 8 bytes are needed"}},
      {"string_cut",
       one_key(GgufKind::kString).put(uint64_t{10}).text("abc"),
       kBad,
       {"in its text: 10 bytes are needed", "7 bytes are missing"}},
      {"string_endless",
       one_key(GgufKind::kString).put(kHuge).text("abc"),
       kBad,
       {"key 'k'", "in its text: "}},
  };
}

std::vector<BadFile> array_cases() {
  return {
      {"array_kind_cut", one_key(GgufKind::kArray).put(uint8_t{0}), kBad, {"its element kind"}},
      {"array_count_cut", one_key(GgufKind::kArray).put(4u).put(4u), kBad, {"its element count"}},
      {"array_cut",
       keys(1).array("k", GgufKind::kU32, 10).zeros(12),
       kBad,
       {"in its array: 40 bytes are needed", "28 bytes are missing"}},
      {"array_count_endless",
       keys(1).array("k", GgufKind::kU8, kHuge).zeros(12),
       kBad,
       {"is an array of 18446744073709551615 elements, expected at most 16777216"}},
      {"array_count_overflows",
       keys(1).array("k", GgufKind::kU64, 1ull << 61).zeros(12),
       kBad,
       {"is an array of 2305843009213693952 elements"}},
      {"array_of_16_million",
       keys(1).array("k", GgufKind::kF64, 1 << 24).zeros(12),
       kBad,
       {"in its array: 134217728 bytes are needed"}},
      {"array_nested",
       keys(1).array("k", GgufKind::kArray, 1).zeros(24),
       kNo,
       {"is an array of arrays, expected a flat array"}},
      {"array_kind_unknown",
       keys(1).array("k", GgufKind{77}, 1).zeros(24),
       kBad,
       {"is an array of kind 77"}},
      {"array_bool_of_3",
       keys(1).array("k", GgufKind::kBool, 2).put(uint8_t{1}).put(uint8_t{3}),
       kBad,
       {"element 1 is a bool with value 3"}},
      {"array_bool_cut",
       keys(1).array("k", GgufKind::kBool, 9).put(uint8_t{1}),
       kBad,
       {"in its array: 9 bytes are needed"}},
      {"strings_not_there",
       keys(1).array("k", GgufKind::kString, 1000).string("a"),
       kBad,
       {"in its array: 8000 bytes are needed"}},
      {"strings_length_cut",
       keys(1).array("k", GgufKind::kString, 2).string("0123456789").put(1u),
       kBad,
       {"string 1 of 2", "4 bytes are missing"}},
      {"strings_text_cut",
       keys(1).array("k", GgufKind::kString, 2).string("ab").put(uint64_t{9}).text("abc"),
       kBad,
       {"in string 1 of 2: 9 bytes are needed", "6 bytes are missing"}},
      {"strings_endless",
       keys(1).array("k", GgufKind::kString, 1).put(kHuge),
       kBad,
       {"string 0 of 1"}},
      {"alignment_text",
       keys(1).key("general.alignment", GgufKind::kString).string("32"),
       kBad,
       {"key 'general.alignment': is not an unsigned integer"}},
      {"alignment_signed",
       aligned_to(GgufKind::kI32, -32),
       kBad,
       {"key 'general.alignment': is not an unsigned integer"}},
      {"alignment_0",
       aligned_to(GgufKind::kU32, 0u),
       kBad,
       {"is 0, expected a power of two from 8 to 1048576"}},
      {"alignment_24", aligned_to(GgufKind::kU32, 24u), kBad, {"is 24, expected a power of two"}},
      {"alignment_4",
       aligned_to(GgufKind::kU32, 4u),
       kBad,
       {"is 4, expected a power of two from 8"}},
      {"alignment_2_gib",
       aligned_to(GgufKind::kU32, 1u << 31),
       kBad,
       {"is 2147483648, expected a power of two"}},
      {"alignment_64_bit",
       aligned_to(GgufKind::kU64, uint64_t{1} << 63),
       kBad,
       {"expected a power of two"}},
  };
}

std::vector<BadFile> tensor_cases() {
  const std::string long_name(300, 't');
  return {
      {"tensor_name_empty",
       tensors(1).tensor("", {4}, kF32, 0).pad().zeros(64),
       kBad,
       {"tensor 1 of 1: the name is empty"}},
      {"tensor_name_long",
       tensors(1).tensor(long_name, {4}, kF32, 0).pad().zeros(64),
       kBad,
       {"the name has 300 bytes, expected at most 255"}},
      {"tensor_name_cut",
       tensors(1).put(uint64_t{100}).zeros(40),
       kBad,
       {"tensor 1 of 1", "in its name: 100 bytes are needed"}},
      {"tensor_twice",
       tensors(2).tensor("t", {4}, kF32, 0).tensor("t", {4}, kF32, 32).pad().zeros(64),
       kBad,
       {"tensor 't': is given twice"}},
      {"tensor_0_dims",
       tensors(1).tensor("t", {}, kF32, 0).pad().zeros(64),
       kBad,
       {"tensor 't': has 0 dimensions, expected 1 to 4"}},
      {"tensor_5_dims",
       one_tensor({1, 1, 1, 1, 1}, kF32),
       kBad,
       {"has 5 dimensions, expected 1 to 4"}},
      {"tensor_endless_dims",
       tensors(1).string("t").put(0xffffffffu).zeros(64),
       kBad,
       {"has 4294967295 dimensions"}},
      {"tensor_dims_cut",
       tensors(1).string("tensor").put(4u).put(uint64_t{1}).put(uint64_t{1}),
       kBad,
       {"tensor 'tensor'", "in its dimensions: "}},
      {"tensor_dim_0", one_tensor({4, 0}, kF32), kBad, {"dimension 1 is 0, expected 1 to"}},
      {"tensor_dim_negative",
       one_tensor({kHuge}, kF32),
       kBad,
       {"dimension 0 is 18446744073709551615"}},
      {"tensor_product_overflows",
       one_tensor({1ull << 32, 1ull << 32, 1ull << 32}, kF32),
       kBad,
       {"shape [4294967296, 4294967296, 4294967296] of type F32 is larger than any file"}},
      {"tensor_bytes_overflow",
       one_tensor({1ull << 61}, 28),
       kBad,
       {"of type F64 is larger than any file"}},
      {"tensor_type_unknown",
       one_tensor({4}, 42),
       kNo,
       {"tensor 't': has type 42, which is unknown", "computes with F32"}},
      {"tensor_type_endless", one_tensor({4}, 0xffffffff), kNo, {"has type 4294967295"}},
      {"tensor_type_q4_2",
       one_tensor({32}, 4),
       kNo,
       {"has type Q4_2 (4), which ggml removed", "withdrawn in 2023"}},
      {"tensor_type_q4_0_4_4",
       one_tensor({32}, 31),
       kNo,
       {"has type Q4_0_4_4 (31), which ggml removed", "plain Q4_0"}},
      {"tensor_type_iq4_nl_4_4",
       one_tensor({32}, 36),
       kNo,
       {"has type IQ4_NL_4_4 (36)", "plain IQ4_NL"}},
      {"tensor_row_q4_0",
       one_tensor({48, 2}, kQ4_0),
       kBad,
       {"rows have 48 elements, expected a multiple of 32 for type Q4_0 (shape [48, 2])"}},
      {"tensor_row_q4_k",
       one_tensor({896, 2}, kQ4K),
       kBad,
       {"rows have 896 elements, expected a multiple of 256 for type Q4_K"}},
      {"tensor_unaligned",
       one_tensor({4}, kF32, 16),
       kBad,
       {"its offset is 16, expected a multiple of the alignment 32"}},
      {"tensor_offset_overflows",
       one_tensor({4}, kF32, kHuge - 31),
       kBad,
       {"lies beyond any file"}},
      {"tensor_beyond_end",
       one_tensor({4}, kF32, 1 << 20),
       kBad,
       {"tensor 't': the file is cut short", "are missing"}},
      {"tensor_data_cut",
       tensors(1).tensor("t", {100}, kF32, 0).pad().zeros(399),
       kBad,
       {"the file has", "1 bytes are missing"}},
      {"tensor_data_absent", tensors(1).tensor("t", {100}, kF32, 0), kBad, {"are missing"}},
      {"tensor_info_cut",
       tensors(1).string("t").put(1u).put(uint64_t{4}).put(kF32).zeros(4),
       kBad,
       {"missing"}},
      {"tensors_same_place",
       tensors(2).tensor("a", {8}, kF32, 0).tensor("b", {8}, kF32, 0).pad().zeros(64),
       kBad,
       {"inside tensor"}},
      {"tensors_overlap",
       tensors(2).tensor("b", {8}, kF32, 32).tensor("a", {16}, kF32, 0).pad().zeros(64),
       kBad,
       {"tensor 'b': starts at byte", "inside tensor 'a'"}},
  };
}

void PrintTo(const BadFile& bad, std::ostream* out) {
  *out << bad.name;
}

class BadFiles : public testing::TestWithParam<BadFile> {};

TEST_P(BadFiles, AreRefusedInWords) {
  const BadFile& bad = GetParam();
  const TempFolder folder;
  const auto path = folder.write("bad.gguf", bad.bytes);
  const auto opened = GgufFile::open(path);
  ASSERT_FALSE(opened) << "was accepted";
  const Error& error = opened.error();
  EXPECT_EQ(error_code_name(error.code), error_code_name(bad.code)) << error.message();
  EXPECT_EQ(error.where.find(path.string()), 0u) << "the file is not named: " << error.message();
  EXPECT_FALSE(error.hint.empty()) << "no hint: " << error.message();
  for (const std::string& text : bad.says) {
    EXPECT_NE(error.message().find(text), std::string::npos) << error.message();
  }
  for (const char c : error.message())
    EXPECT_TRUE(c >= 0x20 && c < 0x7f) << "raw bytes in the message";
}

const auto name_of = [](const auto& test) { return test.param.name; };
INSTANTIATE_TEST_SUITE_P(Header, BadFiles, testing::ValuesIn(header_cases()), name_of);
INSTANTIATE_TEST_SUITE_P(Keys, BadFiles, testing::ValuesIn(key_cases()), name_of);
INSTANTIATE_TEST_SUITE_P(Arrays, BadFiles, testing::ValuesIn(array_cases()), name_of);
INSTANTIATE_TEST_SUITE_P(Tensors, BadFiles, testing::ValuesIn(tensor_cases()), name_of);

TEST(BadPaths, AreRefusedInWords) {
  const TempFolder folder;
  const auto absent = GgufFile::open(folder.path() / "absent.gguf");
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().code, ErrorCode::kNotFound);
  EXPECT_NE(absent.error().message().find("No such file"), std::string::npos);

  const auto directory = GgufFile::open(folder.path());
  ASSERT_FALSE(directory);
  EXPECT_NE(directory.error().message().find("is a directory"), std::string::npos);

  const auto fifo_path = folder.path() / "fifo";
  ASSERT_EQ(::mkfifo(fifo_path.c_str(), 0600), 0);
  const auto fifo = GgufFile::open(fifo_path);
  ASSERT_FALSE(fifo);
  EXPECT_NE(fifo.error().message().find("is not a regular file"), std::string::npos);
}

TEST(BadTypes, UnsupportedOnesAreNamedWithTheSupportedList) {
  const TempFolder folder;
  const auto path = folder.write("a.gguf", one_tensor({256}, 16));
  const auto opened = GgufFile::open(path, {.require_supported_types = true});
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, ErrorCode::kUnsupported);
  EXPECT_NE(
      opened.error().message().find("tensor 't': has type IQ2_XXS (16), expected one of F32, "),
      std::string::npos)
      << opened.error().message();
}

}  // namespace
}  // namespace minfer
