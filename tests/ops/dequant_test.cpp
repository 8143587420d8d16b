// minfer/quant_blocks.h against values recorded from the `gguf` Python package
// (tests/golden/dequant.py), bit for bit, and the conversions of f16 over their whole range.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "cases.h"

namespace conformance {
namespace {

uint64_t fnv1a(const std::vector<float>& values) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (float value : values) {
    uint8_t bytes[sizeof value];
    std::memcpy(bytes, &value, sizeof value);
    for (uint8_t byte : bytes) hash = (hash ^ byte) * 0x100000001b3u;
  }
  return hash;
}

TEST(Dequantize, MatchesTheRecordedValuesOfEveryType) {
  std::ifstream file(MINFER_SOURCE_DIR "/tests/golden/dequant.txt");
  ASSERT_TRUE(file) << "tests/golden/dequant.txt is missing";
  std::vector<uint32_t> seen;
  uint32_t type;
  std::string name, hex, digest;
  while (file >> type >> name >> hex >> digest) {
    SCOPED_TRACE(name);
    std::vector<uint8_t> raw;
    for (size_t i = 0; i + 1 < hex.size(); i += 2) {
      raw.push_back(static_cast<uint8_t>(std::stoi(hex.substr(i, 2), nullptr, 16)));
    }
    ASSERT_GT(minfer_type_bytes(type), 0u);
    const size_t blocks = raw.size() / minfer_type_bytes(type);
    std::vector<float> values(blocks * minfer_type_values(type));
    ASSERT_EQ(
        minfer_dequantize_row(type, raw.data(), static_cast<int64_t>(values.size()), values.data()),
        0);
    EXPECT_EQ(fnv1a(values), std::stoull(digest, nullptr, 16));
    seen.push_back(type);
  }
  EXPECT_EQ(seen, std::vector<uint32_t>(std::begin(kWeightTypes), std::end(kWeightTypes)));
}

TEST(Dequantize, HalvesSurviveTheRoundTrip) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = minfer_f16_to_f32(static_cast<uint16_t>(bits));
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(minfer_f16_to_f32(minfer_f32_to_f16(value))));
    } else {
      ASSERT_EQ(minfer_f32_to_f16(value), bits) << value;
    }
  }
}

TEST(Dequantize, HalvesRoundToNearestEven) {
  for (uint32_t bits = 0; bits < 0x7bff; ++bits) {
    const float low = minfer_f16_to_f32(static_cast<uint16_t>(bits));
    const float high = minfer_f16_to_f32(static_cast<uint16_t>(bits + 1));
    const float middle = (low + high) / 2;
    ASSERT_EQ(minfer_f32_to_f16(middle), bits + (bits & 1)) << low;
    ASSERT_EQ(minfer_f32_to_f16(std::nextafter(middle, low)), bits) << low;
    ASSERT_EQ(minfer_f32_to_f16(std::nextafter(middle, high)), bits + 1) << low;
  }
  EXPECT_EQ(minfer_f32_to_f16(65519.996f), 0x7bff);
  EXPECT_EQ(minfer_f32_to_f16(65520.0f), 0x7c00);
  EXPECT_EQ(minfer_f32_to_f16(-1e30f), 0xfc00);
}

TEST(Dequantize, UnknownTypesAreRefused) {
  float out;
  for (const uint32_t type : {4u, 9u, 26u, 27u, 200u}) {
    EXPECT_EQ(minfer_dequantize_row(type, &out, 0, &out), -1) << type;
  }
}

}  // namespace
}  // namespace conformance
