// ROPE, KV_STORE, their fusion with per-head norms, and page copies (see kv.h).
#include "heads.cuh"
#include "kv.cuh"
#include "overlap.cuh"

namespace minfer_cuda {
namespace {

constexpr int kWarps = 4, kTokenWarps = 12;
constexpr int kManyTokens = 256;  ///< a block for each fills the device
constexpr int kMaxHeadDim = 512;

/// The operand that a head, counted over all, belongs to; `head` becomes its number there. n_rows
/// behind the last one.
__device__ __forceinline__ int find_head(const HeadsCall& call, int& head) {
  int which = 0;
  while (which < call.n_rows && head >= call.rows[which].heads) head -= call.rows[which++].heads;
  return which;
}

/// A warp per head.
__global__ void __launch_bounds__(kWarps * 32) heads_kernel(const HeadsCall call) {
  __shared__ float head_values[kWarps][kMaxHeadDim];
  start_overlapped();
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  const int token = blockIdx.y;
  int head = blockIdx.x * kWarps + warp;
  const int which = find_head(call, head);
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

__device__ __forceinline__ float& element(float4& v, int i) {
  return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}

/// A head of 4 * Lanes floats in as many lanes, normed and rotated in halves: a lane's partners are
/// half a head away in another lane.
template <int Lanes>
__device__ __forceinline__ void norm_and_rotate(const HeadRows& r, const float2* angles, int lane,
                                                float4& x) {
  // A warp may hold heads of two operands, of which one is normed.
  float sum = 0.f;
  if (__any_sync(~0u, r.has_norm)) {
    sum = x.x * x.x + x.y * x.y + x.z * x.z + x.w * x.w;
#pragma unroll
    for (int o = Lanes / 2; o; o >>= 1) sum += __shfl_xor_sync(~0u, sum, o);
  }
  if (r.has_norm) {
    const float factor = rsqrtf(sum / static_cast<float>(r.dim) + r.norm_eps);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      element(x, i) *= r.norm ? factor * (r.norm[lane * 4 + i] + r.norm_offset) : factor;
    }
  }
  float4 partner;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    element(partner, i) = __shfl_xor_sync(~0u, element(x, i), Lanes / 2);
  }
  if (!r.rotate) return;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 sc = angles[lane % (Lanes / 2) * 4 + i];
    const float s = lane < Lanes / 2 ? -sc.x : sc.x;
    element(x, i) = element(x, i) * sc.y + element(partner, i) * s;
  }
}

/// Many tokens (see suits_blocks_of_tokens): a block per token, which computes its angles once; its
/// warps ask for several heads at a time.
template <int Lanes>
__global__ void __launch_bounds__(kTokenWarps * 32)
    token_heads_kernel(const __grid_constant__ HeadsCall call, int heads) {
  constexpr int kSlots = kTokenWarps * 32 / Lanes, kBatch = 3;
  __shared__ float2 angles[Lanes * 2];
  start_overlapped();
  const int lane = threadIdx.x % Lanes, slot = threadIdx.x / Lanes, token = blockIdx.x;
  const bool padding = token >= valid_of(call.valid, call.tokens);
  const int64_t place = call.slot && !padding ? call.slot[token] : -1;
  char* page = place < 0 ? nullptr : kv_page(call.kv, place / call.kv.page_tokens);
  const int page_row = place < 0 ? 0 : static_cast<int>(place % call.kv.page_tokens);
  for (int p = threadIdx.x; !padding && p < call.rope.n_rot / 2; p += kTokenWarps * 32) {
    angles[p] = rotation(call.rope, p, call.pos[token]);
  }
  __syncthreads();
  for (int first = slot; first - slot < heads; first += kSlots * kBatch) {
    float4 x[kBatch];
    int head[kBatch], which[kBatch];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      head[i] = first + i * kSlots;
      which[i] = find_head(call, head[i]);
      x[i] = make_float4(0.f, 0.f, 0.f, 0.f);
      if (padding || which[i] >= call.n_rows) continue;
      const HeadRows& r = call.rows[which[i]];
      x[i] = __ldcg(
          reinterpret_cast<const float4*>(r.x + head[i] * r.nb_head + token * r.nb_token) + lane);
    }
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      if (first - slot + i * kSlots >= heads) break;
      const bool real = which[i] < call.n_rows;
      const HeadRows& r = call.rows[real ? which[i] : 0];
      norm_and_rotate<Lanes>(r, angles, lane, x[i]);
      if (!real) continue;
      if (r.out) {
        char* out = r.out + head[i] * r.out_nb_head + token * r.out_nb_token;
        reinterpret_cast<float4*>(out)[lane] = padding ? make_float4(0.f, 0.f, 0.f, 0.f) : x[i];
      }
      if (!r.store || !page) continue;
      char* part = page + (r.store == 1 ? 0 : call.kv.v);
      const __half2 low = __floats2half2_rn(x[i].x, x[i].y);
      const __half2 high = __floats2half2_rn(x[i].z, x[i].w);
      reinterpret_cast<uint2*>(part)[kv_row(call.kv, head[i], page_row) * Lanes + lane] =
          make_uint2(*reinterpret_cast<const uint32_t*>(&low),
                     *reinterpret_cast<const uint32_t*>(&high));
    }
  }
}

bool is_aligned(const char* rows, int64_t nb_head, int64_t nb_token) {
  return reinterpret_cast<uintptr_t>(rows) % 16 == 0 && nb_head % 16 == 0 && nb_token % 16 == 0;
}

/// Whether token_heads_kernel takes the call: aligned heads of `dim`, rotated as halves or not at
/// all, stored as f16.
bool suits_blocks_of_tokens(const HeadsCall& call, int dim) {
  if (call.tokens < kManyTokens) return false;
  for (int i = 0; i < call.n_rows; ++i) {
    const HeadRows& r = call.rows[i];
    if (r.dim != dim || (r.store && call.kv.type != MINFER_TYPE_F16)) return false;
    if (r.rotate && (call.rope.interleaved || call.rope.n_rot != dim)) return false;
    if (!is_aligned(r.x, r.nb_head, r.nb_token)) return false;
    if (!is_aligned(r.out, r.out_nb_head, r.out_nb_token)) return false;
  }
  return true;
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
  const dim3 tokens(static_cast<unsigned>(call.tokens));
  if (suits_blocks_of_tokens(call, 128)) {
    return launch_overlapped(overlap, token_heads_kernel<32>, tokens, kTokenWarps * 32, 0, stream,
                             call, heads);
  }
  if (suits_blocks_of_tokens(call, 64)) {
    return launch_overlapped(overlap, token_heads_kernel<16>, tokens, kTokenWarps * 32, 0, stream,
                             call, heads);
  }
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
