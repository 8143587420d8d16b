// ROPE, KV_STORE, their fusion with per-head norms, and page copies (see kv.h).
#include "heads.cuh"
#include "kv.cuh"
#include "overlap.cuh"

namespace minfer_cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kMaxHeadDim = 512;

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
  load_head(r, head, token, padding, v, lane);
  if (!padding && r.has_norm) norm_head(r, v, lane);
  if (!padding && r.rotate) {
    const int position = call.pos[token];
    for (int p = lane; p < call.rope.n_rot / 2; p += 32) {
      rotate_pair(call.rope, v, p, rotation(call.rope, p, position));
    }
    __syncwarp();
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
