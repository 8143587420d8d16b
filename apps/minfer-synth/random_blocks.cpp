#include "random_blocks.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "minfer/quant_blocks.h"

namespace minfer::synth {
namespace {

/// Weight at root mean square 1 of a block format with random bits and d = 1. From the variances of
/// uniform quants and scales; where a format has a minimum, it is set so that the mean is 0.
struct Spread {
  static constexpr float kQ4_0 = 4.61f;     // -8..7
  static constexpr float kQ5_0 = 9.23f;     // -16..15
  static constexpr float kQ8_0 = 73.9f;     // -128..127
  static constexpr float kQ2K = 13.9f;      // scale 0..15 times 0..3, less 1.5 times 0..15
  static constexpr float kQ3K = 43.3f;      // scale -32..31 times -4..3
  static constexpr float kQ4K = 258.0f;     // scale 0..63 times 0..15, less 7.5 times 0..63
  static constexpr float kQ5K = 527.0f;     // scale 0..63 times 0..31, less 15.5 times 0..63
  static constexpr float kQ6K = 1366.0f;    // scale -128..127 times -32..31
  static constexpr float kIq4Nl = 67.4f;    // the table's entries
  static constexpr float kIq4Xs = 1246.0f;  // scale -32..31 times the table's entries
  static constexpr float kMxfp4 = 5.85f;    // the doubled table's entries
};

/// A scale between a half and one and a half of `scale`: blocks of real models differ likewise.
float jitter(float scale, Random& random) {
  return scale * (0.5f + random.uniform());
}

template <class Block, class Set>
void fill_quantised(Random& random, std::span<uint8_t> out, Set set_scales) {
  random.fill(out);
  for (size_t at = 0; at + sizeof(Block) <= out.size(); at += sizeof(Block)) {
    Block block;
    std::memcpy(&block, out.data() + at, sizeof(Block));
    set_scales(block);
    std::memcpy(out.data() + at, &block, sizeof(Block));
  }
}

/// Formats with one f16 scale `d`.
template <class Block>
void fill_scaled(Random& random, std::span<uint8_t> out, float scale) {
  fill_quantised<Block>(random, out,
                        [&](Block& b) { b.d = minfer_f32_to_f16(jitter(scale, random)); });
}

/// Formats d * q + m, with m at minus `middle` of d.
template <class Block>
void fill_offset(Random& random, std::span<uint8_t> out, float scale, float middle) {
  fill_quantised<Block>(random, out, [&](Block& b) {
    const float d = jitter(scale, random);
    b.d = minfer_f32_to_f16(d);
    b.m = minfer_f32_to_f16(-middle * d);
  });
}

/// Formats d * scale * q - dmin * min, with dmin at `middle` of d.
template <class Block>
void fill_with_min(Random& random, std::span<uint8_t> out, float scale, float middle) {
  fill_quantised<Block>(random, out, [&](Block& b) {
    const float d = jitter(scale, random);
    b.d = minfer_f32_to_f16(d);
    b.dmin = minfer_f32_to_f16(middle * d);
  });
}

/// Scales are powers of two here: blocks take one of two neighbours, together about the wanted
/// `rms`.
void fill_mxfp4(float rms, Random& random, std::span<uint8_t> out) {
  constexpr float kPairSpread = 0.66f;  // log2 of the root mean square of 1 and 2
  const float exponent = std::log2(rms / Spread::kMxfp4) - kPairSpread;
  const auto e = static_cast<uint8_t>(std::clamp(128 + std::lround(exponent), 0L, 253L));
  fill_quantised<minfer_block_mxfp4>(
      random, out, [&](minfer_block_mxfp4& b) { b.e = static_cast<uint8_t>(e + (b.e & 1)); });
}

template <class Stored, class Convert>
void fill_plain(float rms, Random& random, std::span<uint8_t> out, Convert convert) {
  for (size_t at = 0; at + sizeof(Stored) <= out.size(); at += sizeof(Stored)) {
    const Stored value = convert(random.normal() * rms);
    std::memcpy(out.data() + at, &value, sizeof(Stored));
  }
}

uint64_t splitmix64(uint64_t& state) {
  uint64_t z = (state += 0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

}  // namespace

Random::Random(uint64_t seed) {
  for (uint64_t& word : s_) word = splitmix64(seed);
}

void Random::fill(std::span<uint8_t> out) {
  size_t at = 0;
  for (; at + 8 <= out.size(); at += 8) {
    const uint64_t word = next();
    std::memcpy(out.data() + at, &word, 8);
  }
  const uint64_t word = next();
  std::memcpy(out.data() + at, &word, out.size() - at);
}

void fill_blocks(const TypeInfo& type, float rms, Random& random, std::span<uint8_t> out) {
  switch (type.id) {
    case MINFER_TYPE_F32:
      return fill_plain<float>(rms, random, out, [](float x) { return x; });
    case MINFER_TYPE_F16:
      return fill_plain<minfer_f16>(rms, random, out, minfer_f32_to_f16);
    case MINFER_TYPE_BF16:
      return fill_plain<uint16_t>(rms, random, out, [](float x) {
        return static_cast<uint16_t>(minfer_f32_to_bits(x) >> 16);
      });
    case MINFER_TYPE_Q4_0:
      return fill_scaled<minfer_block_q4_0>(random, out, rms / Spread::kQ4_0);
    case MINFER_TYPE_Q4_1:
      return fill_offset<minfer_block_q4_1>(random, out, rms / Spread::kQ4_0, 7.5f);
    case MINFER_TYPE_Q5_0:
      return fill_scaled<minfer_block_q5_0>(random, out, rms / Spread::kQ5_0);
    case MINFER_TYPE_Q5_1:
      return fill_offset<minfer_block_q5_1>(random, out, rms / Spread::kQ5_0, 15.5f);
    case MINFER_TYPE_Q8_0:
      return fill_scaled<minfer_block_q8_0>(random, out, rms / Spread::kQ8_0);
    case MINFER_TYPE_Q2_K:
      return fill_with_min<minfer_block_q2_k>(random, out, rms / Spread::kQ2K, 1.5f);
    case MINFER_TYPE_Q3_K:
      return fill_scaled<minfer_block_q3_k>(random, out, rms / Spread::kQ3K);
    case MINFER_TYPE_Q4_K:
      return fill_with_min<minfer_block_q4_k>(random, out, rms / Spread::kQ4K, 7.5f);
    case MINFER_TYPE_Q5_K:
      return fill_with_min<minfer_block_q5_k>(random, out, rms / Spread::kQ5K, 15.5f);
    case MINFER_TYPE_Q6_K:
      return fill_scaled<minfer_block_q6_k>(random, out, rms / Spread::kQ6K);
    case MINFER_TYPE_IQ4_NL:
      return fill_scaled<minfer_block_iq4_nl>(random, out, rms / Spread::kIq4Nl);
    case MINFER_TYPE_IQ4_XS:
      return fill_scaled<minfer_block_iq4_xs>(random, out, rms / Spread::kIq4Xs);
    case MINFER_TYPE_MXFP4:
      return fill_mxfp4(rms, random, out);
    default:
      random.fill(out);
  }
}

}  // namespace minfer::synth
