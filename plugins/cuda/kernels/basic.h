// Launchers of the plain operators on strided f32 tensors. Formulas: docs/operators.md.
//
// All write zeros for padding entries (Limit) and accumulate in f32. Index types are i32. Launchers
// only enqueue; errors of the launch are returned, faults surface at the next wait.
#pragma once

#include "activation.h"
#include "view.h"

namespace minfer_cuda {

enum class BinaryFn : int32_t { kAdd, kMul };

/// out = a (+|*) b; b repeats along dimensions where its ne is 1.
cudaError_t launch_binary(BinaryFn fn, const View& out, const View& a, const View& b,
                          const Limit& limit, cudaStream_t stream);

enum class UnaryFn : int32_t { kSilu, kGeluTanh, kGeluErf, kGeluQuick, kScale, kSoftCap, kCopy };

/// out = fn(x); kScale: x * p0 + p1; kSoftCap: p0 * tanh(x / p0).
cudaError_t launch_unary(UnaryFn fn, float p0, float p1, const View& out, const View& x,
                         const Limit& limit, cudaStream_t stream);

/// Rows of any strides (per-head norms): a warp per row.
cudaError_t launch_norm_strided(const View& out, const View& x, const float* w, float weight_offset,
                                float eps, const Limit& limit, cudaStream_t stream);

/// out[:, r] = table[:, rows[r]] from a matrix in tile32; type, id: the table's.
cudaError_t launch_gather(uint32_t type, const uint8_t* table, int id, const int32_t* rows,
                          const View& out, const Limit& limit, cudaStream_t stream);

/// The same from an f32 activation.
cudaError_t launch_gather_rows(const View& table, const int32_t* rows, const View& out,
                               const Limit& limit, cudaStream_t stream);

/// out = softmax(scale * x) over ne[0]; a block per row.
cudaError_t launch_softmax(float scale, const View& out, const View& x, const Limit& limit,
                           cudaStream_t stream);

/// Copies x into out at `offset` entries along `axis`.
cudaError_t launch_concat_part(const View& out, const View& x, int axis, int offset,
                               const Limit& limit, cudaStream_t stream);

/// Partial results of launch_arg_max: 8 bytes per row and part.
inline constexpr int kArgMaxParts = 64;

/// out i32 [m]: index of the largest of each row, lowest among equals, NaN last. `scratch`: m *
/// kArgMaxParts * 8 bytes. `overlap`: see overlap.cuh.
cudaError_t launch_arg_max(const View& out, const View& x, const Limit& limit, void* scratch,
                           bool overlap, cudaStream_t stream);

/// out i32 [k, m]: indices of the k largest, largest first, equal values by lower index.
/// k passes over the row: meant for expert routing and short rows.
cudaError_t launch_top_k(const View& out, const View& x, int k, const Limit& limit,
                         cudaStream_t stream);

/// Writes the run's counts; the values travel in the launch, so no host memory has to outlive it.
cudaError_t launch_set_counts(StepCounts* to, StepCounts counts, cudaStream_t stream);

}  // namespace minfer_cuda
