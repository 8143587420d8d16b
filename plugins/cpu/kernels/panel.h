// Packed weights: panels of 16 rows, interleaved so that one vector register holds the same columns
// of all 16, and the int8 activations they are multiplied with. Shared by every x86 level, so that
// one packed weight and one conversion serve them all.
//
// A block is 32 columns of the 16 rows; a panel is its blocks in groups of 8 (the last may have
// fewer in the small formats), and a group is [scales of its blocks][planes of each block]: a
// kernel that goes through the columns reads memory in one ascending stream. A "word" is 4
// consecutive columns of a row (one 32-bit lane of a dot-product instruction), so a block has words
// 0..7. For row r of the panel and word j, with the code of column 4j + i at byte i:
//   8-bit plane   [word 8][row 16] u32: the codes
//   4-bit plane   [4][16] u32:          codes of word j | codes of word j + 4 << 4
//   2-bit plane   [2][16] u32:          word 4p + s at bit 2s of each byte
//   1-bit plane   [16] u32:             word j at bit j of each byte
// Formats of 3, 5 and 6 bits have a plane of low bits, then one of high bits.
// Scales: per block (small formats) f16 d[16], (f16 m[16]), or for mxfp4 u8 exponent[16]; per group
// (K formats) f16 d[16], (f16 dmin[16]), u8 scale[8 or 16][16], (u8 min[8][16]).
// Rows past od are zero. Packed size: the file's, at most 4 % more (q3_k).
//
// Thread-safe: plain data and pure functions. Everything that is evaluated at run time by an
// ISA-specific file is a static function there; this header has only types, constants and consteval
// functions, so that no copy of an inline function carries those instructions elsewhere.
#pragma once

#include <cstdint>

#include "minfer/plugin_abi.h"

namespace minfer_cpu {

inline constexpr int kPanelRows = 16;
inline constexpr int kBlock = 32;  ///< columns of a block

/// How the scales of a format are stored.
enum class ScaleKind {
  kHalf,      ///< f16 per block
  kExponent,  ///< power of two per block (mxfp4)
  kSigned,    ///< f16 per super-block times i8 per group
  kUnsigned,  ///< f16 per super-block times u8 per group
  kNibbles    ///< as kUnsigned; scale in the low, min in the high nibble of one byte (q2_k)
};

enum class Codebook { kNone, kIq4, kMxfp4 };

/// What a kernel must know about a type: value = scale * (code - centre) + bias, or
/// scale * codebook[code].
struct PanelFormat {
  uint32_t type;
  int low_bits, high_bits;  ///< of a code
  int groups;               ///< scales per block: 1, or 2 (one per 16 columns)
  ScaleKind scale;
  bool has_bias;
  int centre;  ///< 0 where has_bias or a codebook
  Codebook codebook;
};

consteval PanelFormat panel_format(uint32_t type) {
  switch (type) {
    case MINFER_TYPE_Q4_0:
      return {type, 4, 0, 1, ScaleKind::kHalf, false, 8, Codebook::kNone};
    case MINFER_TYPE_Q4_1:
      return {type, 4, 0, 1, ScaleKind::kHalf, true, 0, Codebook::kNone};
    case MINFER_TYPE_Q5_0:
      return {type, 4, 1, 1, ScaleKind::kHalf, false, 16, Codebook::kNone};
    case MINFER_TYPE_Q5_1:
      return {type, 4, 1, 1, ScaleKind::kHalf, true, 0, Codebook::kNone};
    case MINFER_TYPE_Q8_0:
      return {type, 8, 0, 1, ScaleKind::kHalf, false, 128, Codebook::kNone};
    case MINFER_TYPE_Q2_K:
      return {type, 2, 0, 2, ScaleKind::kNibbles, true, 0, Codebook::kNone};
    case MINFER_TYPE_Q3_K:
      return {type, 2, 1, 2, ScaleKind::kSigned, false, 4, Codebook::kNone};
    case MINFER_TYPE_Q4_K:
      return {type, 4, 0, 1, ScaleKind::kUnsigned, true, 0, Codebook::kNone};
    case MINFER_TYPE_Q5_K:
      return {type, 4, 1, 1, ScaleKind::kUnsigned, true, 0, Codebook::kNone};
    case MINFER_TYPE_Q6_K:
      return {type, 4, 2, 2, ScaleKind::kSigned, false, 32, Codebook::kNone};
    case MINFER_TYPE_IQ4_NL:
      return {type, 4, 0, 1, ScaleKind::kHalf, false, 0, Codebook::kIq4};
    case MINFER_TYPE_IQ4_XS:
      return {type, 4, 0, 1, ScaleKind::kSigned, false, 0, Codebook::kIq4};
    case MINFER_TYPE_MXFP4:
      return {type, 4, 0, 1, ScaleKind::kExponent, false, 0, Codebook::kMxfp4};
    default:
      return {};
  }
}

inline constexpr int kGroup = 8;  ///< blocks that are packed together: a super-block of K formats

/// True for formats whose scales come in super-blocks of 8 blocks.
consteval bool is_k_format(PanelFormat f) {
  return f.scale != ScaleKind::kHalf && f.scale != ScaleKind::kExponent;
}

/// Columns are a multiple of this.
consteval int column_multiple(PanelFormat f) {
  return is_k_format(f) ? kBlock * kGroup : kBlock;
}

/// Bytes of the planes of one block of a panel.
consteval int plane_bytes(PanelFormat f) {
  return kPanelRows * kBlock / 8 * (f.low_bits + f.high_bits);
}

/// Bytes of d and m of one block or super-block.
consteval int factor_bytes(PanelFormat f) {
  return f.scale == ScaleKind::kExponent ? kPanelRows : 2 * kPanelRows * (f.has_bias ? 2 : 1);
}

/// Bytes of the scales of a whole group; a group of n blocks has n / 8 of that.
consteval int group_scale_bytes(PanelFormat f) {
  if (!is_k_format(f)) return kGroup * factor_bytes(f);
  const int per_group = f.scale == ScaleKind::kUnsigned ? 2 : 1;
  return factor_bytes(f) + kPanelRows * kGroup * f.groups * per_group;
}

consteval int group_bytes(PanelFormat f) {
  return group_scale_bytes(f) + kGroup * plane_bytes(f);
}

/// Packing, the same for all levels. Parameters as in MatmulKernel.
template <uint32_t Type>
struct Panel {
  static bool fits(int64_t id, int64_t od);
  static uint64_t packed_bytes(int64_t id, int64_t od);
  static void pack(const uint8_t* file_rows, int64_t id, int64_t od, int64_t row0, int64_t row1,
                   uint8_t* packed);
  static void unpack_row(const uint8_t* packed, int64_t id, int64_t od, int64_t row, float* out);
};

/// 32 activations of one token: ActFormat::kQ8Block32. Rows are id / 32 of these, one cache line
/// each. x = scale * q.
///
/// The other fields make the change from integer to float free of charge. A dot product starts from
/// `start` instead of 0: the bits of kMagic, less 128 times the sum of q (which removes the offset
/// of weights stored as w + 128). Read as a float, the result is kMagic + dot, and one fused
/// multiply-add with `scale` and `minus_magic` = -kMagic * scale gives scale * dot, rounded once:
/// scale has at most 22 significant bits, so that kMagic * scale is exact.
struct alignas(64) ActBlock {
  int8_t q[kBlock];
  float scale;
  float minus_magic;
  int32_t start;          ///< of all 32 columns
  int32_t start_half[2];  ///< of columns 0..15 and 16..31
  float sum;              ///< scale * sum of q
  float sum_half[2];
};
static_assert(sizeof(ActBlock) == 64);

inline constexpr float kMagic = 12582912.0f;         ///< 1.5 * 2^23
inline constexpr int32_t kMagicBits = 0x4b400000;    ///< of kMagic; adding an integer below 2^22
                                                     ///< to the bits adds it to the value
inline constexpr uint32_t kScaleMask = 0xfffffffcu;  ///< keeps 22 significant bits

}  // namespace minfer_cpu
