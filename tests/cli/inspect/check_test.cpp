// minfer-inspect --check: each kind of scale that can be bad is found, and named with its block.
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <cstddef>
#include <cstring>

#include "gguf/writer.h"
#include "minfer/quant_blocks.h"
#include "run_tool.h"

namespace minfer {
namespace {

constexpr int kBadModelStatus = 6;
constexpr int64_t kBlocks = 6;
constexpr int64_t kBadBlock = 4;

/// A file with one tensor `t` of zeroed blocks, `patch` written at `offset` of one block.
std::string file_with(const TypeInfo& type, size_t offset, std::string_view patch) {
  GgufWriter writer;
  writer.add_tensor("t", type, std::vector<int64_t>{type.block_elements, kBlocks});
  std::string bytes = writer.header();
  const size_t at = bytes.size() + kBadBlock * type.block_bytes + offset;
  bytes.resize(bytes.size() + writer.data_bytes());
  bytes.replace(at, patch.size(), patch);
  return bytes;
}

struct BadScale {
  const char* type;
  const char* field;
  size_t offset;
  std::string pattern;
  const char* fault;
};

void PrintTo(const BadScale& bad, std::ostream* out) {
  *out << bad.type << "." << bad.field;
}

const std::string kF16Nan("\x01\x7e", 2);
const std::string kF16Inf("\x00\xfc", 2);

class Check : public testing::TestWithParam<BadScale> {};

TEST_P(Check, FindsTheBadScale) {
  const BadScale& bad = GetParam();
  const TypeInfo& type = *find_type(bad.type);
  const WorkFolder folder;
  const std::string path = folder.write("a.gguf", file_with(type, bad.offset, bad.pattern));
  const ToolResult result = run_tool(MINFER_INSPECT, {path, "--check"});
  EXPECT_EQ(result.status, kBadModelStatus);
  const std::string expected = std::string("tensor 't' (") + bad.type +
                               "): " + (type.block_elements > 1 ? "block" : "element") +
                               " 4: " + bad.field + " is " + bad.fault;
  EXPECT_NE(result.out.find(expected), std::string::npos) << expected << " in\n" << result.out;
  EXPECT_NE(result.out.find("1 numbers in 1 tensors are NaN or infinite"), std::string::npos);

  const std::string good = folder.write("b.gguf", file_with(type, bad.offset, "\x00"));
  EXPECT_EQ(run_tool(MINFER_INSPECT, {good, "--check"}).status, 0);
}

const auto scale_name = [](const auto& test) {
  return std::string(test.param.type) + "_" + test.param.field + "_" + test.param.fault;
};
INSTANTIATE_TEST_SUITE_P(
    Scales, Check,
    testing::Values(
        BadScale{"F32", "value", 0, std::string("\x00\x00\xc0\x7f", 4), "NaN"},
        BadScale{"F32", "value", 0, std::string("\x00\x00\x80\xff", 4), "infinite"},
        BadScale{"F64", "value", 0, std::string("\x00\x00\x00\x00\x00\x00\xf0\x7f", 8), "infinite"},
        BadScale{"F16", "value", 0, kF16Nan, "NaN"},
        BadScale{"BF16", "value", 0, std::string("\xc0\x7f", 2), "NaN"},
        BadScale{"BF16", "value", 0, std::string("\x80\xff", 2), "infinite"},
        BadScale{"Q4_0", "d", offsetof(minfer_block_q4_0, d), kF16Nan, "NaN"},
        BadScale{"Q4_0", "d", offsetof(minfer_block_q4_0, d), kF16Inf, "infinite"},
        BadScale{"Q4_1", "d", offsetof(minfer_block_q4_1, d), kF16Nan, "NaN"},
        BadScale{"Q4_1", "m", offsetof(minfer_block_q4_1, m), kF16Nan, "NaN"},
        BadScale{"Q5_0", "d", offsetof(minfer_block_q5_0, d), kF16Nan, "NaN"},
        BadScale{"Q5_1", "d", offsetof(minfer_block_q5_1, d), kF16Inf, "infinite"},
        BadScale{"Q5_1", "m", offsetof(minfer_block_q5_1, m), kF16Inf, "infinite"},
        BadScale{"Q8_0", "d", offsetof(minfer_block_q8_0, d), kF16Nan, "NaN"},
        BadScale{"Q2_K", "d", offsetof(minfer_block_q2_k, d), kF16Nan, "NaN"},
        BadScale{"Q2_K", "dmin", offsetof(minfer_block_q2_k, dmin), kF16Nan, "NaN"},
        BadScale{"Q3_K", "d", offsetof(minfer_block_q3_k, d), kF16Nan, "NaN"},
        BadScale{"Q4_K", "d", offsetof(minfer_block_q4_k, d), kF16Nan, "NaN"},
        BadScale{"Q4_K", "dmin", offsetof(minfer_block_q4_k, dmin), kF16Inf, "infinite"},
        BadScale{"Q5_K", "d", offsetof(minfer_block_q5_k, d), kF16Nan, "NaN"},
        BadScale{"Q5_K", "dmin", offsetof(minfer_block_q5_k, dmin), kF16Nan, "NaN"},
        BadScale{"Q6_K", "d", offsetof(minfer_block_q6_k, d), kF16Nan, "NaN"},
        BadScale{"IQ4_NL", "d", offsetof(minfer_block_iq4_nl, d), kF16Nan, "NaN"},
        BadScale{"IQ4_XS", "d", offsetof(minfer_block_iq4_xs, d), kF16Nan, "NaN"},
        BadScale{"MXFP4", "e", offsetof(minfer_block_mxfp4, e), "\xff", "NaN"},
        BadScale{"NVFP4", "d2", 2, "\x7f", "NaN"},
        BadScale{"Q8_K", "d", 0, std::string("\x00\x00\xc0\x7f", 4), "NaN"},
        BadScale{"TQ1_0", "d", 52, kF16Nan, "NaN"}, BadScale{"TQ2_0", "d", 64, kF16Nan, "NaN"},
        BadScale{"IQ1_M", "d", 48, std::string("\x00\x00\x00\x00\x00\xc0\x00\x70", 8), "infinite"},
        BadScale{"IQ2_XXS", "d", 0, kF16Nan, "NaN"}, BadScale{"IQ3_S", "d", 0, kF16Nan, "NaN"}),
    scale_name);

TEST(CheckReport, CountsBeyondTheFirstFewAndGivesJson) {
  GgufWriter writer;
  writer.add_tensor("good", *find_type("Q8_0"), std::vector<int64_t>{32, 4});
  writer.add_tensor("bad", *find_type("F16"), std::vector<int64_t>{100});
  writer.add_tensor("whole", *find_type("I32"), std::vector<int64_t>{4});
  std::string bytes = writer.header();
  const size_t data = bytes.size();
  bytes.resize(data + writer.data_bytes());
  for (size_t i = 0; i < 100; ++i) bytes.replace(data + 160 + 2 * i, 2, kF16Nan);
  for (size_t i = 0; i < 16; ++i) bytes[bytes.size() - 1 - i] = '\xff';
  const WorkFolder folder;
  const std::string path = folder.write("a.gguf", bytes);

  const ToolResult text = run_tool(MINFER_INSPECT, {path, "--check"});
  EXPECT_EQ(text.status, kBadModelStatus);
  EXPECT_NE(text.out.find("... and 92 more"), std::string::npos) << text.out;

  const ToolResult result = run_tool(MINFER_INSPECT, {path, "--check", "--json"});
  EXPECT_EQ(result.status, kBadModelStatus);
  const boost::json::value report = boost::json::parse(result.out);
  EXPECT_FALSE(report.at("ok").as_bool());
  EXPECT_EQ(report.at("bad_numbers").to_number<int>(), 100);
  EXPECT_EQ(report.at("bad_tensors").to_number<int>(), 1);
  EXPECT_EQ(report.at("unchecked_tensors").to_number<int>(), 1);
  EXPECT_EQ(report.at("findings").as_array().size(), 8u);
  EXPECT_EQ(report.at("findings").at(3).at("element").to_number<int>(), 3);
}

}  // namespace
}  // namespace minfer
