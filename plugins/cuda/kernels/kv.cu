// ROPE, KV_STORE, their fusion with per-head norms, and page copies (see kv.h).
#include "kv.cuh"
#include "overlap.cuh"

namespace minfer_cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kMaxHeadDim = 512;

/// sin and cos of pair p at a position, times the amplitude.
__device__ __forceinline__ float2 rotation(const Rope& rope, int p, int position) {
  uint64_t turn = rope.turns[p];
  if (rope.factors) {
    const double turns = static_cast<double>(turn) * 0x1p-64 / static_cast<double>(rope.factors[p]);
    turn = static_cast<uint64_t>((turns - floor(turns)) * 0x1p64);
  }
  // Wraps modulo one turn; the signed value is the nearest equivalent angle.
  const int64_t wrapped = static_cast<int64_t>(turn * static_cast<uint64_t>(position));
  const float half_turns = static_cast<float>(wrapped) * 0x1p-63f;
  float s, c;
  sincospif(half_turns, &s, &c);
  return make_float2(s * rope.amplitude, c * rope.amplitude);
}

/// Rotates the head in `v` (shared memory of one warp) in place.
__device__ __forceinline__ void rotate_head(const Rope& rope, float* v, int position, int lane) {
  const int pairs = rope.n_rot / 2;
  for (int p = lane; p < pairs; p += 32) {
    const int i = rope.interleaved ? 2 * p : p;
    const int j = rope.interleaved ? 2 * p + 1 : p + pairs;
    const float2 sc = rotation(rope, p, position);
    const float a = v[i], b = v[j];
    v[i] = a * sc.y - b * sc.x;
    v[j] = a * sc.x + b * sc.y;
  }
  __syncwarp();
}

__device__ __forceinline__ void norm_head(const HeadRows& r, float* v, int lane) {
  float sum = 0.f;
  for (int i = lane; i < r.dim; i += 32) sum = fmaf(v[i], v[i], sum);
  const float factor = rsqrtf(warp_sum(sum) / static_cast<float>(r.dim) + r.norm_eps);
  for (int i = lane; i < r.dim; i += 32) {
    v[i] *= r.norm ? factor * (r.norm[i] + r.norm_offset) : factor;
  }
  __syncwarp();
}

__global__ void __launch_bounds__(kWarps * 32) heads_kernel(const HeadsCall call) {
  __shared__ float head_values[kWarps][kMaxHeadDim];
  start_overlapped();
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  const int token = blockIdx.y;
  int head = blockIdx.x * kWarps + warp;
  int which = 0;
  while (which < call.n_rows && head >= call.rows[which].heads) head -= call.rows[which++].heads;
  if (which >= call.n_rows) return;
  const HeadRows& r = call.rows[which];
  const bool padding = token >= valid_of(call.valid, call.tokens);

  float* v = head_values[warp];
  const auto* x = reinterpret_cast<const float*>(r.x + head * r.nb_head + token * r.nb_token);
  for (int i = lane; i < r.dim; i += 32) v[i] = padding ? 0.f : x[i];
  __syncwarp();
  if (!padding) {
    if (r.has_norm) norm_head(r, v, lane);
    if (r.rotate) rotate_head(call.rope, v, call.pos[token], lane);
  }
  if (r.out) {
    auto* out = reinterpret_cast<float*>(r.out + head * r.out_nb_head + token * r.out_nb_token);
    for (int i = lane; i < r.dim; i += 32) out[i] = v[i];
  }
  if (!r.store || padding) return;
  const int64_t slot = call.slot[token];
  if (slot < 0) return;
  char* page = kv_page(call.kv, slot / call.kv.page_tokens);
  const int64_t row = kv_row(call.kv, head, static_cast<int>(slot % call.kv.page_tokens));
  const KvPart part = r.store == 1 ? KvPart::kK : KvPart::kV;
  for (int i = lane; i < (r.dim + 31) / 32 * 32; i += 32) {
    kv_store(call.kv, part, page, row, i, i < r.dim ? v[i] : 0.f);
  }
}

/// A warp per row of a part; `canonical` order is place-major: [page_tokens][n_head][dim].
template <bool Import>
__global__ void page_kernel(KvPages pages, uint32_t page_index, float* canonical) {
  const int lane = threadIdx.x & 31;
  int row = blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5);
  const int rows = pages.n_head * pages.page_tokens;
  if (row >= 2 * rows) return;
  const KvPart part = row < rows ? KvPart::kK : KvPart::kV;
  const int dim = part == KvPart::kK ? pages.dim_k : pages.dim_v;
  float* base = canonical + (part == KvPart::kK ? 0 : int64_t{rows} * pages.dim_k);
  row %= rows;
  float* values = base + int64_t{row} * dim;
  const int64_t stored = kv_row(pages, row % pages.n_head, row / pages.n_head);
  char* page = kv_page(pages, page_index);
  for (int i = lane; i < (dim + 31) / 32 * 32; i += 32) {
    if constexpr (Import) {
      kv_store(pages, part, page, stored, i, i < dim ? values[i] : 0.f);
    } else if (i < dim) {
      values[i] = kv_load(pages, part, page, stored, i);
    }
  }
}

int64_t align_up(int64_t bytes) {
  return (bytes + 255) / 256 * 256;
}

}  // namespace

void lay_out_page(KvPages& p) {
  const int64_t rows = int64_t{p.n_head} * p.page_tokens;
  p.stride_k = (p.dim_k + 7) / 8 * 8;
  p.stride_v = (p.dim_v + 7) / 8 * 8;
  const bool q8 = p.type == MINFER_TYPE_Q8_0;
  const int64_t element = p.type == MINFER_TYPE_F32 ? 4 : q8 ? 1 : 2;
  p.k_scales = align_up(rows * p.stride_k * element);
  p.v = align_up(p.k_scales + (q8 ? rows * (p.dim_k / 32) * 2 : 0));
  p.v_scales = align_up(p.v + rows * p.stride_v * element);
  p.page_bytes = align_up(p.v_scales + (q8 ? rows * (p.dim_v / 32) * 2 : 0));
}

cudaError_t launch_heads(const HeadsCall& call, bool overlap, cudaStream_t stream) {
  int heads = 0;
  for (int i = 0; i < call.n_rows; ++i) heads += call.rows[i].heads;
  if (heads == 0 || call.tokens == 0) return cudaSuccess;
  const dim3 grid(static_cast<unsigned>((heads + kWarps - 1) / kWarps),
                  static_cast<unsigned>(call.tokens));
  return launch_overlapped(overlap, heads_kernel, grid, kWarps * 32, 0, stream, call);
}

cudaError_t launch_export_page(const KvPages& pages, uint32_t page, float* canonical,
                               cudaStream_t stream) {
  const int rows = 2 * pages.n_head * pages.page_tokens;
  page_kernel<false><<<(rows + 3) / 4, 128, 0, stream>>>(pages, page, canonical);
  return cudaPeekAtLastError();
}

cudaError_t launch_import_page(const KvPages& pages, uint32_t page, const float* canonical,
                               cudaStream_t stream) {
  const int rows = 2 * pages.n_head * pages.page_tokens;
  page_kernel<true><<<(rows + 3) / 4, 128, 0, stream>>>(pages, page, const_cast<float*>(canonical));
  return cudaPeekAtLastError();
}

}  // namespace minfer_cuda
