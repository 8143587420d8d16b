// Random weights in every type that minfer computes with, written directly as blocks.
//
// All bits of a block are random but its scales, which are set so that dequantised weights have
// mean 0 and a chosen root mean square: activations then neither vanish nor overflow through the
// layers. Deterministic in the seed. A generator is used by one thread at a time.
#pragma once

#include <bit>
#include <cstdint>
#include <span>

#include "minfer/gguf.h"

namespace minfer::synth {

/// xoshiro256++ by Blackman and Vigna (public domain algorithm), seeded through splitmix64.
class Random {
 public:
  explicit Random(uint64_t seed);

  uint64_t next() {
    const uint64_t result = std::rotl(s_[0] + s_[3], 23) + s_[0];
    const uint64_t t = s_[1] << 17;
    s_[2] ^= s_[0];
    s_[3] ^= s_[1];
    s_[1] ^= s_[2];
    s_[0] ^= s_[3];
    s_[2] ^= t;
    s_[3] = std::rotl(s_[3], 45);
    return result;
  }

  /// Uniform in [0, 1).
  float uniform() { return static_cast<float>(next() >> 40) * 0x1p-24f; }

  /// Mean 0, variance 1, nearly normal: the sum of four uniform numbers, so never beyond 3.47.
  float normal() {
    const uint64_t bits = next();
    const auto part = [&](int i) { return static_cast<int32_t>(bits >> (16 * i) & 0xffff); };
    // Each part has variance 65536^2 / 12, their sum 65536^2 / 3.
    const int32_t sum = part(0) + part(1) + part(2) + part(3) - 2 * 65535;
    return static_cast<float>(sum) * 2.642869e-5f;
  }

  /// Fills with random bytes.
  void fill(std::span<uint8_t> out);

 private:
  uint64_t s_[4];
};

/// Fills `out`, whole blocks of `type`, with weights of root mean square about `rms`.
void fill_blocks(const TypeInfo& type, float rms, Random& random, std::span<uint8_t> out);

}  // namespace minfer::synth
