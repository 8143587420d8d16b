// Packing of quantised weights into panels, and the way back to exact f32 values. Compiled for the
// baseline processor; see panel.h for the layout. Pure functions, thread-safe.
#include "kernels/panel.h"

#include <cstring>

#include "minfer/quant_blocks.h"

namespace minfer_cpu {
namespace {

// One row of one file block, taken apart.
struct RowBlock {
  uint8_t codes[MINFER_QK_K];
  uint8_t scales[16];
  uint8_t mins[16];
  uint16_t d;  // f16 bits, or the exponent of mxfp4
  uint16_t m;  // f16 bits of m or dmin
};

// ---- file block -> RowBlock -------------------------------------------------------------------

void split_nibbles(const uint8_t* qs, uint8_t* codes) {
  for (int i = 0; i < 16; ++i) codes[i] = qs[i] & 15;
  for (int i = 0; i < 16; ++i) codes[16 + i] = qs[i] >> 4;
}

void add_fifth_bits(const uint8_t* qh, uint8_t* codes) {
  for (int i = 0; i < 32; ++i) codes[i] |= static_cast<uint8_t>(((qh[i / 8] >> (i % 8)) & 1) << 4);
}

// Groups 2c and 2c + 1 of q4_k and q5_k share 32 bytes.
void split_k_nibbles(const uint8_t* qs, uint8_t* codes) {
  for (int c = 0; c < 4; ++c) {
    for (int i = 0; i < 32; ++i) codes[64 * c + i] = qs[32 * c + i] & 15;
    for (int i = 0; i < 32; ++i) codes[64 * c + 32 + i] = qs[32 * c + i] >> 4;
  }
}

// The bit pairs of q2_k and q3_k: four runs of 32 in each 32 bytes.
void split_pairs(const uint8_t* qs, uint8_t* codes) {
  for (int half = 0; half < 2; ++half) {
    for (int run = 0; run < 4; ++run) {
      uint8_t* out = codes + 128 * half + 32 * run;
      for (int i = 0; i < 32; ++i) out[i] = (qs[32 * half + i] >> (2 * run)) & 3;
    }
  }
}

void extract(const minfer_block_q4_0& b, RowBlock& r) {
  r.d = b.d;
  split_nibbles(b.qs, r.codes);
}

void extract(const minfer_block_q4_1& b, RowBlock& r) {
  r.d = b.d;
  r.m = b.m;
  split_nibbles(b.qs, r.codes);
}

void extract(const minfer_block_q5_0& b, RowBlock& r) {
  r.d = b.d;
  split_nibbles(b.qs, r.codes);
  add_fifth_bits(b.qh, r.codes);
}

void extract(const minfer_block_q5_1& b, RowBlock& r) {
  r.d = b.d;
  r.m = b.m;
  split_nibbles(b.qs, r.codes);
  add_fifth_bits(b.qh, r.codes);
}

void extract(const minfer_block_q8_0& b, RowBlock& r) {
  r.d = b.d;
  for (int i = 0; i < 32; ++i) r.codes[i] = static_cast<uint8_t>(b.qs[i]) ^ 0x80;
}

void extract(const minfer_block_iq4_nl& b, RowBlock& r) {
  r.d = b.d;
  split_nibbles(b.qs, r.codes);
}

void extract(const minfer_block_mxfp4& b, RowBlock& r) {
  r.d = b.e;
  split_nibbles(b.qs, r.codes);
}

void extract(const minfer_block_q2_k& b, RowBlock& r) {
  r.d = b.d;
  r.m = b.dmin;
  std::memcpy(r.scales, b.scales, 16);
  split_pairs(b.qs, r.codes);
}

void extract(const minfer_block_q3_k& b, RowBlock& r) {
  r.d = b.d;
  for (int g = 0; g < 16; ++g) r.scales[g] = static_cast<uint8_t>(minfer_q3_k_scale(b.scales, g));
  split_pairs(b.qs, r.codes);
  for (int run = 0; run < 8; ++run) {
    for (int i = 0; i < 32; ++i) r.codes[32 * run + i] |= ((b.hmask[i] >> run) & 1) << 2;
  }
}

void extract(const minfer_block_q4_k& b, RowBlock& r) {
  r.d = b.d;
  r.m = b.dmin;
  for (int g = 0; g < 8; ++g) minfer_k4_scale_min(b.scales, g, &r.scales[g], &r.mins[g]);
  split_k_nibbles(b.qs, r.codes);
}

void extract(const minfer_block_q5_k& b, RowBlock& r) {
  r.d = b.d;
  r.m = b.dmin;
  for (int g = 0; g < 8; ++g) minfer_k4_scale_min(b.scales, g, &r.scales[g], &r.mins[g]);
  split_k_nibbles(b.qs, r.codes);
  for (int g = 0; g < 8; ++g) {
    for (int i = 0; i < 32; ++i) r.codes[32 * g + i] |= ((b.qh[i] >> g) & 1) << 4;
  }
}

void extract(const minfer_block_q6_k& b, RowBlock& r) {
  r.d = b.d;
  std::memcpy(r.scales, b.scales, 16);
  for (int half = 0; half < 2; ++half) {
    for (int run = 0; run < 4; ++run) {
      const uint8_t* low = b.ql + 64 * half + 32 * (run % 2);
      const uint8_t* high = b.qh + 32 * half;
      uint8_t* out = r.codes + 128 * half + 32 * run;
      for (int i = 0; i < 32; ++i) {
        out[i] = static_cast<uint8_t>(((low[i] >> (4 * (run / 2))) & 15) |
                                      (((high[i] >> (2 * run)) & 3) << 4));
      }
    }
  }
}

void extract(const minfer_block_iq4_xs& b, RowBlock& r) {
  r.d = b.d;
  for (int g = 0; g < 8; ++g) {
    r.scales[g] = static_cast<uint8_t>(minfer_iq4_xs_scale(&b, g));
    split_nibbles(b.qs + 16 * g, r.codes + 32 * g);
  }
}

template <uint32_t Type>
struct FileBlock;
// clang-format off
template <> struct FileBlock<MINFER_TYPE_Q4_0> { using type = minfer_block_q4_0; };
template <> struct FileBlock<MINFER_TYPE_Q4_1> { using type = minfer_block_q4_1; };
template <> struct FileBlock<MINFER_TYPE_Q5_0> { using type = minfer_block_q5_0; };
template <> struct FileBlock<MINFER_TYPE_Q5_1> { using type = minfer_block_q5_1; };
template <> struct FileBlock<MINFER_TYPE_Q8_0> { using type = minfer_block_q8_0; };
template <> struct FileBlock<MINFER_TYPE_Q2_K> { using type = minfer_block_q2_k; };
template <> struct FileBlock<MINFER_TYPE_Q3_K> { using type = minfer_block_q3_k; };
template <> struct FileBlock<MINFER_TYPE_Q4_K> { using type = minfer_block_q4_k; };
template <> struct FileBlock<MINFER_TYPE_Q5_K> { using type = minfer_block_q5_k; };
template <> struct FileBlock<MINFER_TYPE_Q6_K> { using type = minfer_block_q6_k; };
template <> struct FileBlock<MINFER_TYPE_IQ4_NL> { using type = minfer_block_iq4_nl; };
template <> struct FileBlock<MINFER_TYPE_IQ4_XS> { using type = minfer_block_iq4_xs; };
template <> struct FileBlock<MINFER_TYPE_MXFP4> { using type = minfer_block_mxfp4; };
// clang-format on

// ---- codes <-> planes -------------------------------------------------------------------------

uint32_t load_word(const uint8_t* p) {
  uint32_t w;
  std::memcpy(&w, p, 4);
  return w;
}

void store_word(uint8_t* p, uint32_t w) {
  std::memcpy(p, &w, 4);
}

// Four equal bytes with the low `bits` bits set.
constexpr uint32_t byte_mask(int bits) {
  return 0x01010101u * ((1u << bits) - 1u);
}

// A plane of `Bits` bits holds 8 / Bits words of codes in each u32; word `j` lies in u32 index(j),
// at bit shift(j) of each byte.
template <int Bits>
constexpr int plane_index(int j) {
  return Bits == 4 ? j % 4 : j / (8 / Bits);
}
template <int Bits>
constexpr int plane_shift(int j) {
  return Bits == 4 ? 4 * (j / 4) : Bits * (j % (8 / Bits));
}

// Writes bits [from, from + Bits) of the codes of one row.
template <int Bits>
void write_plane(const uint8_t* codes, int from, int row, uint8_t* plane) {
  uint32_t words[Bits] = {};
  for (int j = 0; j < 8; ++j) {
    const uint32_t part = (load_word(codes + 4 * j) >> from) & byte_mask(Bits);
    words[plane_index<Bits>(j)] |= part << plane_shift<Bits>(j);
  }
  for (int i = 0; i < Bits; ++i) store_word(plane + 4 * (i * kPanelRows + row), words[i]);
}

template <int Bits>
void read_plane(const uint8_t* plane, int row, int to, uint8_t* codes) {
  for (int j = 0; j < 8; ++j) {
    const uint32_t word = load_word(plane + 4 * (plane_index<Bits>(j) * kPanelRows + row));
    const uint32_t part = ((word >> plane_shift<Bits>(j)) & byte_mask(Bits)) << to;
    store_word(codes + 4 * j, load_word(codes + 4 * j) | part);
  }
}

constexpr int low_plane_bytes(int bits) {
  return kPanelRows * kBlock / 8 * bits;
}

template <PanelFormat F>
void write_codes(const uint8_t* codes, int row, uint8_t* planes) {
  write_plane<F.low_bits>(codes, 0, row, planes);
  if constexpr (F.high_bits != 0) {
    write_plane<F.high_bits>(codes, F.low_bits, row, planes + low_plane_bytes(F.low_bits));
  }
}

template <PanelFormat F>
void read_codes(const uint8_t* planes, int row, uint8_t* codes) {
  std::memset(codes, 0, kBlock);
  read_plane<F.low_bits>(planes, row, 0, codes);
  if constexpr (F.high_bits != 0) {
    read_plane<F.high_bits>(planes + low_plane_bytes(F.low_bits), row, F.low_bits, codes);
  }
}

// ---- scales -----------------------------------------------------------------------------------

// Byte offsets inside a group's scales: of d, and of scale and min number `i` of a row.
template <PanelFormat F>
constexpr int factor_offset(int block) {
  return is_k_format(F) ? 0 : block * factor_bytes(F);
}
template <PanelFormat F>
constexpr int scale_offset(int i, int row) {
  return factor_bytes(F) + i * kPanelRows + row;
}
template <PanelFormat F>
constexpr int min_offset(int i, int row) {
  return scale_offset<F>(kGroup * F.groups + i, row);
}

template <PanelFormat F>
void write_scales(const RowBlock& r, int block, int row, uint8_t* scales) {
  uint8_t* factors = scales + factor_offset<F>(block);
  if constexpr (F.scale == ScaleKind::kExponent) {
    factors[row] = static_cast<uint8_t>(r.d);
    return;
  }
  std::memcpy(factors + 2 * row, &r.d, 2);
  if constexpr (F.has_bias) std::memcpy(factors + 2 * (kPanelRows + row), &r.m, 2);
  if constexpr (is_k_format(F)) {
    for (int g = 0; g < 8 * F.groups; ++g) {
      scales[scale_offset<F>(g, row)] = r.scales[g];
      if constexpr (F.scale == ScaleKind::kUnsigned) scales[min_offset<F>(g, row)] = r.mins[g];
    }
  }
}

// value = scale * (code - centre) + bias
struct Affine {
  float scale;
  float bias;
};

// Of half `half` (formats with two scales per block) of block `block` of the group.
template <PanelFormat F>
Affine read_scales(const uint8_t* scales, int block, int half, int row) {
  const uint8_t* factors = scales + factor_offset<F>(block);
  if constexpr (F.scale == ScaleKind::kExponent) {
    return {minfer_e8m0_half_to_f32(factors[row]), 0.0f};
  }
  uint16_t d, m = 0;
  std::memcpy(&d, factors + 2 * row, 2);
  if constexpr (F.has_bias) std::memcpy(&m, factors + 2 * (kPanelRows + row), 2);
  const float factor = minfer_f16_to_f32(d);
  const float offset = minfer_f16_to_f32(m);
  if constexpr (!is_k_format(F)) return {factor, offset};
  const int i = block * F.groups + half;
  const uint8_t s = scales[scale_offset<F>(i, row)];
  switch (F.scale) {
    case ScaleKind::kSigned:
      return {factor * static_cast<float>(static_cast<int8_t>(s)), 0.0f};
    case ScaleKind::kUnsigned: {
      const uint8_t min = scales[min_offset<F>(i, row)];
      return {factor * static_cast<float>(s), -(offset * static_cast<float>(min))};
    }
    default:
      return {factor * static_cast<float>(s & 15), -(offset * static_cast<float>(s >> 4))};
  }
}

template <PanelFormat F>
float signed_code(uint8_t code) {
  if constexpr (F.codebook == Codebook::kIq4) return minfer_iq4_values[code];
  if constexpr (F.codebook == Codebook::kMxfp4) return minfer_mxfp4_values[code];
  return static_cast<float>(code - F.centre);
}

template <PanelFormat F>
uint64_t panel_bytes(int64_t id) {
  return static_cast<uint64_t>((id / kBlock * group_bytes(F) / kGroup + 63) / 64 * 64);
}

// A group of a panel: up to 8 blocks.
template <PanelFormat F>
struct Group {
  uint8_t* scales;
  uint8_t* planes;
  int blocks;
};

template <PanelFormat F>
Group<F> group_at(const uint8_t* panel, int64_t id, int64_t group) {
  const int64_t left = id / kBlock - group * kGroup;
  const int n = left < kGroup ? static_cast<int>(left) : kGroup;
  uint8_t* start = const_cast<uint8_t*>(panel) + group * group_bytes(F);
  return {start, start + n * group_scale_bytes(F) / kGroup, n};
}

int64_t group_count(int64_t id) {
  return (id / kBlock + kGroup - 1) / kGroup;
}

// Packs the columns of one group of one row.
template <uint32_t Type>
void pack_row(const uint8_t* file, int row, const Group<panel_format(Type)>& group) {
  constexpr PanelFormat f = panel_format(Type);
  using Block = typename FileBlock<Type>::type;
  constexpr int step = column_multiple(f) / kBlock;
  for (int b = 0; b < group.blocks; b += step) {
    Block block;
    std::memcpy(&block, file + static_cast<size_t>(b / step) * sizeof(Block), sizeof(Block));
    RowBlock parts;
    extract(block, parts);
    for (int i = 0; i < step; ++i) {
      write_codes<f>(parts.codes + kBlock * i, row, group.planes + (b + i) * plane_bytes(f));
    }
    write_scales<f>(parts, b, row, group.scales);
  }
}

}  // namespace

template <uint32_t Type>
bool Panel<Type>::fits(int64_t id, int64_t) {
  return id > 0 && id % column_multiple(panel_format(Type)) == 0;
}

template <uint32_t Type>
uint64_t Panel<Type>::packed_bytes(int64_t id, int64_t od) {
  const int64_t panels = (od + kPanelRows - 1) / kPanelRows;
  return static_cast<uint64_t>(panels) * panel_bytes<panel_format(Type)>(id);
}

template <uint32_t Type>
void Panel<Type>::pack(const uint8_t* file_rows, int64_t id, int64_t, int64_t row0, int64_t row1,
                       uint8_t* packed) {
  constexpr PanelFormat f = panel_format(Type);
  const int64_t row_bytes = id / column_multiple(f) * sizeof(typename FileBlock<Type>::type);
  constexpr int64_t group_file_bytes =
      kBlock * kGroup / column_multiple(f) * sizeof(typename FileBlock<Type>::type);
  for (int64_t row = row0; row < row1; row += kPanelRows) {
    uint8_t* panel = packed + static_cast<uint64_t>(row / kPanelRows) * panel_bytes<f>(id);
    const int rows = row1 - row < kPanelRows ? static_cast<int>(row1 - row) : kPanelRows;
    if (rows < kPanelRows) std::memset(panel, 0, panel_bytes<f>(id));
    for (int64_t g = 0; g < group_count(id); ++g) {
      const Group<f> group = group_at<f>(panel, id, g);
      for (int r = 0; r < rows; ++r) {
        pack_row<Type>(file_rows + (row + r) * row_bytes + g * group_file_bytes, r, group);
      }
    }
  }
}

template <uint32_t Type>
void Panel<Type>::unpack_row(const uint8_t* packed, int64_t id, int64_t, int64_t row, float* out) {
  constexpr PanelFormat f = panel_format(Type);
  constexpr int columns = kBlock / f.groups;
  const uint8_t* panel = packed + static_cast<uint64_t>(row / kPanelRows) * panel_bytes<f>(id);
  const int r = static_cast<int>(row % kPanelRows);
  for (int64_t g = 0; g < group_count(id); ++g) {
    const Group<f> group = group_at<f>(panel, id, g);
    for (int b = 0; b < group.blocks; ++b) {
      uint8_t codes[kBlock];
      read_codes<f>(group.planes + b * plane_bytes(f), r, codes);
      for (int half = 0; half < f.groups; ++half) {
        const Affine a = read_scales<f>(group.scales, b, half, r);
        for (int i = columns * half; i < columns * (half + 1); ++i) {
          const float value = a.scale * signed_code<f>(codes[i]);
          out[i] = f.has_bias ? value + a.bias : value;
        }
      }
      out += kBlock;
    }
  }
}

template struct Panel<MINFER_TYPE_Q4_0>;
template struct Panel<MINFER_TYPE_Q4_1>;
template struct Panel<MINFER_TYPE_Q5_0>;
template struct Panel<MINFER_TYPE_Q5_1>;
template struct Panel<MINFER_TYPE_Q8_0>;
template struct Panel<MINFER_TYPE_Q2_K>;
template struct Panel<MINFER_TYPE_Q3_K>;
template struct Panel<MINFER_TYPE_Q4_K>;
template struct Panel<MINFER_TYPE_Q5_K>;
template struct Panel<MINFER_TYPE_Q6_K>;
template struct Panel<MINFER_TYPE_IQ4_NL>;
template struct Panel<MINFER_TYPE_IQ4_XS>;
template struct Panel<MINFER_TYPE_MXFP4>;

}  // namespace minfer_cpu
