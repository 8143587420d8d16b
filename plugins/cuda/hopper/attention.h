// Hopper prefill attention: wgmma over paged f16 KV, K and V brought in by tensor copies.
//
// Computes what launch_attention_tiled does (../kernels/attention.h), tolerance 1e-3 against the
// stored values: f16 KV, equal head dims of K and V of 64, 80, 96, 128 or 256, pages of a multiple
// of 8 positions. Queries are scaled and rounded to f16, probabilities too; sums are f32.
//
// Persistent blocks; an item is 128 query rows of one KV head (tokens of a sequence times the heads
// that share it), or a part of the positions that they see. Parts are added in a fixed order, so
// results do not depend on timing. Thread-safe; nothing is allocated; launches can be captured.
#pragma once

#include "../kernels/attention.h"

namespace minfer_cuda::hopper {

bool attention_fits(const AttentionCall& call);

/// `workspace` has attention_workspace_bytes(), 16-byte aligned. `counters`,
/// attention_counter_bytes(), are zero before the first launch and again after each. `overlap`: see
/// ../kernels/overlap.cuh.
cudaError_t launch_attention(const AttentionCall& call, int sms, float* workspace,
                             uint32_t* counters, bool overlap, cudaStream_t stream);
uint64_t attention_workspace_bytes(const AttentionCall& call, int sms);
uint64_t attention_counter_bytes(int sms);

}  // namespace minfer_cuda::hopper
