// The seam between the CPU plugin's plans and its matmul kernels.
//
// A MatmulKernel owns one packed weight layout and one activation format, for one weight type at
// one instruction level. Plans pack weights once (at import), quantise each activation once per
// producer (by `activation` format, shared by every matrix that reads it), then split output rows
// over threads. All functions are pure and thread-safe on disjoint ranges.
#pragma once

#include <cstdint>

namespace minfer_cpu {

/// Instruction levels, each including the ones before it.
enum class Isa : uint32_t { kScalar = 0, kAvx2 = 1, kAvx512 = 2, kAvx512Vnni = 3 };

/// Formats that activations are handed to kernels in. Two kernels that name the same format share
/// one conversion.
enum class ActFormat : uint32_t {
  kF32 = 0,  ///< plain rows of f32
  kQ8Block32 =
      1,  ///< int8 in blocks of 32 along k, f32 scale and sum per block (layout of the ISA)
  kQ8Block256 = 2  ///< int8 in blocks of 256, f32 scale per block, sums per 16 (layout of the ISA)
};

struct MatmulKernel {
  const char* label;  ///< e.g. "q4_k_r8/avx512vnni"
  uint32_t type;      ///< MINFER_TYPE_* of the file's weight
  ActFormat activation;
  uint32_t row_group;  ///< rows are packed, and ranges given, in multiples of this

  /// True when a weight of id columns fits this kernel.
  bool (*fits)(int64_t id, int64_t od);

  /// Bytes of the packed weight; od is rounded up to row_group inside.
  uint64_t (*packed_bytes)(int64_t id, int64_t od);
  /// Packs rows [row0, row1) of the file's data (row0 a multiple of row_group) into `packed`, the
  /// start of the whole packed weight. NULL: the kernel reads the file's bytes as they are
  /// (aliased).
  void (*pack)(const uint8_t* file_rows, int64_t id, int64_t od, int64_t row0, int64_t row1,
               uint8_t* packed);
  /// Dequantises one row of the packed weight to f32, exactly as the file's type defines it.
  void (*unpack_row)(const uint8_t* packed, int64_t id, int64_t od, int64_t row, float* out);

  /// Bytes that nt activation rows take in this format.
  uint64_t (*activation_bytes)(int64_t id, int64_t nt);
  /// Converts rows [t0, t1) of x (row stride in floats) into `out`, the start of the whole buffer
  /// for nt rows.
  void (*convert)(const float* x, int64_t stride, int64_t id, int64_t nt, int64_t t0, int64_t t1,
                  uint8_t* out);

  /// out[t * out_stride + o] = sum_i w[o, i] * x[t, i] (+ bias[o]) for o in [row0, row1), t in [0,
  /// nt). row0 is a multiple of row_group; row1 is too, or od. bias may be NULL. `scratch` has
  /// scratch_bytes(id, nt) bytes per thread, 64-byte aligned.
  void (*run)(const uint8_t* packed, int64_t id, int64_t od, const uint8_t* activation, int64_t nt,
              int64_t row0, int64_t row1, const float* bias, float* out, int64_t out_stride,
              uint8_t* scratch);
  uint64_t (*scratch_bytes)(int64_t id, int64_t nt);
};

/// The best kernel for a weight at or below `isa`; never NULL for a supported type at kScalar.
const MatmulKernel* find_matmul(uint32_t type, int64_t id, int64_t od, Isa isa);

/// The highest level this processor and operating system run.
Isa detect_isa();

}  // namespace minfer_cpu
