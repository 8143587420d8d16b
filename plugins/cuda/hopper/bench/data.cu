// Random matrices and activations on the device.
#include <cuda_fp16.h>

#include <cstring>

#include "../../kernels/repack.h"
#include "bench.h"

namespace minfer_cuda::hopper::bench {

uint64_t g_seed = 1;

namespace {

__host__ __device__ uint32_t random_bits(uint64_t stream, uint64_t i) {
  uint64_t x =
      (stream + 0x632be59bd9b4e019ull) * 0xd1342543de82ef95ull + (i + 1) * 0x9e3779b97f4a7c15ull;
  x ^= x >> 32, x *= 0xff51afd7ed558ccdull, x ^= x >> 29, x *= 0xc4ceb9fe1a85ec53ull, x ^= x >> 32;
  return static_cast<uint32_t>((x * 0xd6e8feb86659fd93ull) >> 32);
}
__host__ __device__ float random_unit(uint64_t stream, uint64_t i) {
  return static_cast<float>(random_bits(stream, i)) * (1.f / 4294967296.f);
}
float random_normal(uint64_t stream, uint64_t i) {
  float s = 0;
  for (int j = 0; j < 4; ++j) s += random_unit(stream, i * 4 + j) - 0.5f;
  return s * 1.7f;
}

/// Random file blocks with plausible scales.
__global__ void fill_blocks(uint32_t type, int block_bytes, uint8_t* out, size_t blocks,
                            uint64_t seed) {
  const size_t b = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x;
  if (b >= blocks) return;
  uint8_t* p = out + b * block_bytes;
  for (int i = 0; i < block_bytes; i += 2) {
    const uint32_t r = random_bits(seed, b * 128 + i / 2);
    p[i] = static_cast<uint8_t>(r);
    p[i + 1] = static_cast<uint8_t>(r >> 8);
  }
  const float u = 0.5f + random_unit(seed + 1, b), v = 0.8f + 0.4f * random_unit(seed + 2, b);
  const auto put = [&](int at, float f) {
    const __half h = __float2half_rn(f);
    memcpy(p + at, &h, 2);
  };
  switch (type) {
    case MINFER_TYPE_Q4_K:
      put(0, 2e-4f * u), put(2, 1.5e-3f * u * v);
      break;
    case MINFER_TYPE_Q5_K:
      put(0, 1e-4f * u), put(2, 1.5e-3f * u * v);
      break;
    case MINFER_TYPE_Q6_K:
      put(208, 2e-5f * u);
      break;
    case MINFER_TYPE_Q8_0:
      put(0, 4e-4f * u);
      break;
    default:
      put(0, 5e-3f * u);
  }
}

}  // namespace

Matrix make_matrix(uint32_t type, int id, int od, bool keep) {
  const TypeLayout& layout = *find_layout(type);
  Matrix m{type, id, od, nullptr, 0, {}};
  const size_t blocks = static_cast<size_t>(id / layout.block_k) * od;
  m.bytes = blocks * layout.block_bytes;
  Buffer raw(m.bytes);
  CHECK(cudaMalloc(&m.tiles, tiled_bytes(layout, id, od)));
  fill_blocks<<<static_cast<unsigned>((blocks + 255) / 256), 256, 0, g_stream>>>(
      type, layout.block_bytes, raw.as<uint8_t>(), blocks, g_seed += 10);
  CHECK(cudaGetLastError());
  CHECK(launch_repack(layout, raw.as<uint8_t>(), id, od, m.tiles, g_stream));
  CHECK(cudaStreamSynchronize(g_stream));
  if (keep) m.file = raw.get<uint8_t>(m.bytes);
  return m;
}

std::vector<float> random_floats(size_t n, uint64_t stream, float scale) {
  std::vector<float> v(n);
  for (size_t i = 0; i < n; ++i) v[i] = random_normal(stream, i) * scale;
  return v;
}

Model::Model() {
  for (int l = 0; l < kLayers; ++l) {
    const uint32_t big = l & 1 ? MINFER_TYPE_Q6_K : MINFER_TYPE_Q4_K, q4 = MINFER_TYPE_Q4_K;
    layers.push_back({make_matrix(q4, kEmbd, kEmbd, false), make_matrix(q4, kEmbd, kKv, false),
                      make_matrix(big, kEmbd, kKv, false), make_matrix(q4, kEmbd, kEmbd, false),
                      make_matrix(q4, kEmbd, kFf, false), make_matrix(q4, kEmbd, kFf, false),
                      make_matrix(big, kFf, kEmbd, false)});
    const Layer& y = layers.back();
    for (const Matrix* m : {&y.q, &y.k, &y.v, &y.o, &y.gate, &y.up, &y.down}) bytes += m->bytes;
  }
  head = make_matrix(MINFER_TYPE_Q6_K, kEmbd, kVocab, false);
  bytes += head.bytes;
}

}  // namespace minfer_cuda::hopper::bench
