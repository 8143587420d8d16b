// Exercise 2: how much work per thread? Q4_0 to f16 in three grains.
//
// A block of Q4_0 is an f16 scale and 16 bytes; byte j holds the values j (low nibble) and j + 16
// (high nibble), each minus 8, times the scale. `block`: a thread per block. `pair`: a thread per
// byte. `four`: a thread per four blocks. The results must equal the CPU's bit by bit.
#include <cuda_fp16.h>

#include <cstdint>
#include <cstring>
#include <random>

#include "tutorial.cuh"

namespace {

constexpr int kThreads = 256;
constexpr int kValues = 32;

struct BlockQ4 {
  uint16_t scale;
  uint8_t nibbles[16];
};
static_assert(sizeof(BlockQ4) == 18);

__host__ __device__ inline float scale_of(const BlockQ4& block) {
  __half_raw raw;
  raw.x = block.scale;
  return __half2float(__half(raw));
}

__device__ inline void dequantize(const BlockQ4& block, __half* out) {
  const float scale = scale_of(block);
  for (int j = 0; j < 16; ++j) {
    out[j] = __float2half(scale * static_cast<float>((block.nibbles[j] & 15) - 8));
    out[j + 16] = __float2half(scale * static_cast<float>((block.nibbles[j] >> 4) - 8));
  }
}

__global__ void dequant_block(int n, const BlockQ4* in, __half* out) {
  const int b = blockIdx.x * blockDim.x + threadIdx.x;
  if (b < n) dequantize(in[b], out + b * kValues);
}

__global__ void dequant_pair(int n, const BlockQ4* in, __half* out) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const int b = i / 16, j = i % 16;
  if (b >= n) return;
  const float scale = scale_of(in[b]);
  const int byte = in[b].nibbles[j];
  out[b * kValues + j] = __float2half(scale * static_cast<float>((byte & 15) - 8));
  out[b * kValues + j + 16] = __float2half(scale * static_cast<float>((byte >> 4) - 8));
}

__global__ void dequant_four(int n, const BlockQ4* in, __half* out) {
  const int first = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
  for (int b = first; b < first + 4 && b < n; ++b) dequantize(in[b], out + b * kValues);
}

std::vector<uint16_t> dequant_on_cpu(const std::vector<BlockQ4>& blocks) {
  std::vector<uint16_t> out;
  out.reserve(blocks.size() * kValues);
  for (const BlockQ4& block : blocks) {
    for (int i = 0; i < kValues; ++i) {
      const int byte = block.nibbles[i % 16];
      const int value = (i < 16 ? byte & 15 : byte >> 4) - 8;
      const __half half = __float2half(scale_of(block) * static_cast<float>(value));
      uint16_t bits;
      std::memcpy(&bits, &half, sizeof bits);
      out.push_back(bits);
    }
  }
  return out;
}

std::vector<BlockQ4> random_blocks(int n) {
  std::mt19937 random(1);
  std::vector<BlockQ4> blocks(n);
  for (BlockQ4& block : blocks) {
    const __half scale = __float2half(0.001f * static_cast<float>(1 + random() % 1000));
    std::memcpy(&block.scale, &scale, sizeof block.scale);
    for (uint8_t& byte : block.nibbles) byte = static_cast<uint8_t>(random());
  }
  return blocks;
}

}  // namespace

int main() {
  const int n = 1 << 20;
  const std::vector<BlockQ4> blocks = random_blocks(n);
  const std::vector<uint16_t> want = dequant_on_cpu(blocks);
  const DeviceArray<BlockQ4> in(blocks);
  DeviceArray<__half> out(static_cast<size_t>(n) * kValues);
  const auto block = [&] { dequant_block<<<n / kThreads, kThreads>>>(n, in.get(), out.get()); };
  const auto pair = [&] {
    dequant_pair<<<16 * (n / kThreads), kThreads>>>(n, in.get(), out.get());
  };
  const auto four = [&] { dequant_four<<<n / 4 / kThreads, kThreads>>>(n, in.get(), out.get()); };

  bool right = true;
  const auto check = [&](const auto& kernel) {
    out.fill(0xff);
    kernel();
    CHECK(cudaGetLastError());
    const auto got = out.read();
    right = right && std::memcmp(got.data(), want.data(), want.size() * sizeof(uint16_t)) == 0;
  };
  check(block);
  check(pair);
  check(four);

  compare("thread per block", block, "thread per byte", pair);
  compare("thread per block", block, "thread per 4 blocks", four);
  return verdict(right);
}
