/*
 * The quantised block formats of GGUF files (C11, also valid C++; header-only and optional for
 * plugins): their memory layout and an exact scalar dequantisation of each.
 *
 * A row of n values is n / elements consecutive blocks. All fields are little-endian and the
 * structs have no padding. Dequantisation is exact in this sense: every product is rounded to f32
 * in the order written here, so compile users with contraction off (-ffp-contract=off) where the
 * target has FMA. Functions are static and pure, hence thread-safe.
 */
#ifndef MINFER_QUANT_BLOCKS_H
#define MINFER_QUANT_BLOCKS_H

#include <stdint.h>
#include <string.h>

#include "minfer/plugin_abi.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Values per block of the small formats, and per super-block of the K formats. */
#define MINFER_QK 32
#define MINFER_QK_K 256

typedef uint16_t minfer_f16; /* IEEE 754 binary16, as bits */

/* x = d * (q - 8); low nibbles are values 0..15, high nibbles 16..31 (as in every 32-value format).
 */
typedef struct minfer_block_q4_0 {
  minfer_f16 d;
  uint8_t qs[16];
} minfer_block_q4_0;

/* x = d * q + m */
typedef struct minfer_block_q4_1 {
  minfer_f16 d;
  minfer_f16 m;
  uint8_t qs[16];
} minfer_block_q4_1;

/* x = d * (q - 16); bit i of qh is bit 4 of value i. */
typedef struct minfer_block_q5_0 {
  minfer_f16 d;
  uint8_t qh[4];
  uint8_t qs[16];
} minfer_block_q5_0;

/* x = d * q + m */
typedef struct minfer_block_q5_1 {
  minfer_f16 d;
  minfer_f16 m;
  uint8_t qh[4];
  uint8_t qs[16];
} minfer_block_q5_1;

/* x = d * q */
typedef struct minfer_block_q8_0 {
  minfer_f16 d;
  int8_t qs[32];
} minfer_block_q8_0;

/* 16 groups of 16: x = d * (scale & 15) * q - dmin * (scale >> 4). Each half of 128 values has 32
 * bytes of qs, whose bit pairs 0, 2, 4, 6 hold four runs of 32 values. */
typedef struct minfer_block_q2_k {
  uint8_t scales[16];
  uint8_t qs[64];
  minfer_f16 d;
  minfer_f16 dmin;
} minfer_block_q2_k;

/* 16 groups of 16 with 6-bit scales less 32: x = d * scale * (q - 4), where bit 2 of q is bit g of
 * hmask[i] for run g of 32 values. qs as in q2_k. */
typedef struct minfer_block_q3_k {
  uint8_t hmask[32];
  uint8_t qs[64];
  uint8_t scales[12];
  minfer_f16 d;
} minfer_block_q3_k;

/* 8 groups of 32 with 6-bit scales and mins: x = d * scale * q - dmin * min. Each 32 bytes of qs
 * hold two groups: low nibbles, then high nibbles. */
typedef struct minfer_block_q4_k {
  minfer_f16 d;
  minfer_f16 dmin;
  uint8_t scales[12];
  uint8_t qs[128];
} minfer_block_q4_k;

/* As q4_k with bit 4 of group g's values in bit g of qh. */
typedef struct minfer_block_q5_k {
  minfer_f16 d;
  minfer_f16 dmin;
  uint8_t scales[12];
  uint8_t qh[32];
  uint8_t qs[128];
} minfer_block_q5_k;

/* 16 groups of 16: x = d * scale * (q - 32). Each half of 128 values has 64 bytes of ql (low
 * nibbles: runs 0 and 1 of 32, high nibbles: runs 2 and 3) and 32 of qh (bit pairs 0, 2, 4, 6 for
 * the runs). */
typedef struct minfer_block_q6_k {
  uint8_t ql[128];
  uint8_t qh[64];
  int8_t scales[16];
  minfer_f16 d;
} minfer_block_q6_k;

/* x = d * table[q] with minfer_iq4_values. */
typedef struct minfer_block_iq4_nl {
  minfer_f16 d;
  uint8_t qs[16];
} minfer_block_iq4_nl;

/* 8 groups of 32, each like iq4_nl: x = d * (scale - 32) * table[q]; scales have 4 low bits in
 * scales_l and 2 high bits in scales_h. */
typedef struct minfer_block_iq4_xs {
  minfer_f16 d;
  uint16_t scales_h;
  uint8_t scales_l[4];
  uint8_t qs[128];
} minfer_block_iq4_xs;

/* x = 2^(e - 128) * table[q] with minfer_mxfp4_values (the e2m1 values doubled). */
typedef struct minfer_block_mxfp4 {
  uint8_t e;
  uint8_t qs[16];
} minfer_block_mxfp4;

static const int8_t minfer_iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                             1,    13,   25,  38,  53,  69,  89,  113};
static const int8_t minfer_mxfp4_values[16] = {0, 1,  2,  3,  4,  6,  8,  12,
                                               0, -1, -2, -3, -4, -6, -8, -12};

/* Values and bytes of one block of a type (1 value for plain types); 0 when the type is unknown. */
static inline uint32_t minfer_type_values(uint32_t type) {
  switch (type) {
    case MINFER_TYPE_F32:
    case MINFER_TYPE_F16:
    case MINFER_TYPE_BF16:
    case MINFER_TYPE_I32:
    case MINFER_TYPE_I64:
      return 1;
    case MINFER_TYPE_Q4_0:
    case MINFER_TYPE_Q4_1:
    case MINFER_TYPE_Q5_0:
    case MINFER_TYPE_Q5_1:
    case MINFER_TYPE_Q8_0:
    case MINFER_TYPE_IQ4_NL:
    case MINFER_TYPE_MXFP4:
      return MINFER_QK;
    case MINFER_TYPE_Q2_K:
    case MINFER_TYPE_Q3_K:
    case MINFER_TYPE_Q4_K:
    case MINFER_TYPE_Q5_K:
    case MINFER_TYPE_Q6_K:
    case MINFER_TYPE_IQ4_XS:
      return MINFER_QK_K;
    default:
      return 0;
  }
}

static inline uint32_t minfer_type_bytes(uint32_t type) {
  switch (type) {
    case MINFER_TYPE_F32:
    case MINFER_TYPE_I32:
      return 4;
    case MINFER_TYPE_F16:
    case MINFER_TYPE_BF16:
      return 2;
    case MINFER_TYPE_I64:
      return 8;
    case MINFER_TYPE_Q4_0:
      return sizeof(minfer_block_q4_0);
    case MINFER_TYPE_Q4_1:
      return sizeof(minfer_block_q4_1);
    case MINFER_TYPE_Q5_0:
      return sizeof(minfer_block_q5_0);
    case MINFER_TYPE_Q5_1:
      return sizeof(minfer_block_q5_1);
    case MINFER_TYPE_Q8_0:
      return sizeof(minfer_block_q8_0);
    case MINFER_TYPE_Q2_K:
      return sizeof(minfer_block_q2_k);
    case MINFER_TYPE_Q3_K:
      return sizeof(minfer_block_q3_k);
    case MINFER_TYPE_Q4_K:
      return sizeof(minfer_block_q4_k);
    case MINFER_TYPE_Q5_K:
      return sizeof(minfer_block_q5_k);
    case MINFER_TYPE_Q6_K:
      return sizeof(minfer_block_q6_k);
    case MINFER_TYPE_IQ4_NL:
      return sizeof(minfer_block_iq4_nl);
    case MINFER_TYPE_IQ4_XS:
      return sizeof(minfer_block_iq4_xs);
    case MINFER_TYPE_MXFP4:
      return sizeof(minfer_block_mxfp4);
    default:
      return 0;
  }
}

static inline const char* minfer_type_name(uint32_t type) {
  switch (type) {
    case MINFER_TYPE_F32:
      return "f32";
    case MINFER_TYPE_F16:
      return "f16";
    case MINFER_TYPE_BF16:
      return "bf16";
    case MINFER_TYPE_I32:
      return "i32";
    case MINFER_TYPE_I64:
      return "i64";
    case MINFER_TYPE_Q4_0:
      return "q4_0";
    case MINFER_TYPE_Q4_1:
      return "q4_1";
    case MINFER_TYPE_Q5_0:
      return "q5_0";
    case MINFER_TYPE_Q5_1:
      return "q5_1";
    case MINFER_TYPE_Q8_0:
      return "q8_0";
    case MINFER_TYPE_Q2_K:
      return "q2_k";
    case MINFER_TYPE_Q3_K:
      return "q3_k";
    case MINFER_TYPE_Q4_K:
      return "q4_k";
    case MINFER_TYPE_Q5_K:
      return "q5_k";
    case MINFER_TYPE_Q6_K:
      return "q6_k";
    case MINFER_TYPE_IQ4_NL:
      return "iq4_nl";
    case MINFER_TYPE_IQ4_XS:
      return "iq4_xs";
    case MINFER_TYPE_MXFP4:
      return "mxfp4";
    default:
      return "unknown";
  }
}

/* ---- scalars -------------------------------------------------------------------------------- */

static inline float minfer_bits_to_f32(uint32_t bits) {
  float f;
  memcpy(&f, &bits, sizeof f);
  return f;
}

static inline uint32_t minfer_f32_to_bits(float f) {
  uint32_t bits;
  memcpy(&bits, &f, sizeof bits);
  return bits;
}

static inline float minfer_f16_to_f32(minfer_f16 h) {
  const uint32_t sign = (uint32_t)(h & 0x8000u) << 16;
  const uint32_t exponent = (h >> 10) & 31u;
  const uint32_t fraction = h & 0x3ffu;
  if (exponent == 31) return minfer_bits_to_f32(sign | 0x7f800000u | (fraction << 13));
  if (exponent != 0) return minfer_bits_to_f32(sign | ((exponent + 112) << 23) | (fraction << 13));
  /* Zero and subnormals: fraction * 2^-24, exact in f32. */
  const float magnitude = (float)fraction * 5.9604644775390625e-8f;
  return minfer_bits_to_f32(sign | minfer_f32_to_bits(magnitude));
}

/* Rounds to nearest even; overflow gives infinity; NaN stays NaN (quiet). */
static inline minfer_f16 minfer_f32_to_f16(float f) {
  const uint32_t bits = minfer_f32_to_bits(f);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return (minfer_f16)(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
  if (magnitude >= 0x477ff000u) return (minfer_f16)(sign | 0x7c00u); /* rounds to 65536 or above */
  if (magnitude < 0x38800000u) {
    /* Below 2^-14: adding 0.5 leaves round(x * 2^24) in the low bits of the sum. */
    const float sum = minfer_bits_to_f32(magnitude) + 0.5f;
    return (minfer_f16)(sign | (minfer_f32_to_bits(sum) - 0x3f000000u));
  }
  const uint32_t odd = (magnitude >> 13) & 1u;
  return (minfer_f16)(sign | ((magnitude - 0x38000000u + 0xfffu + odd) >> 13));
}

static inline float minfer_bf16_to_f32(uint16_t h) {
  return minfer_bits_to_f32((uint32_t)h << 16);
}

/* 2^(e - 128), down to the subnormals. */
static inline float minfer_e8m0_half_to_f32(uint8_t e) {
  return minfer_bits_to_f32(e < 2 ? 0x00200000u << e : (uint32_t)(e - 1) << 23);
}

/* Scale and min number `group` (0..7) of a q4_k or q5_k block: the first four have 6 bits in bytes
 * 0..3 and 4..7, the last four have 4 bits in bytes 8..11 and 2 bits on top of the first eight. */
static inline void minfer_k4_scale_min(const uint8_t* scales, int group, uint8_t* scale,
                                       uint8_t* min) {
  if (group < 4) {
    *scale = scales[group] & 63;
    *min = scales[group + 4] & 63;
  } else {
    *scale = (uint8_t)((scales[group + 4] & 15) | ((scales[group - 4] >> 6) << 4));
    *min = (uint8_t)((scales[group + 4] >> 4) | ((scales[group] >> 6) << 4));
  }
}

/* Scale number `group` (0..15) of a q3_k block, less 32: -32..31. */
static inline int minfer_q3_k_scale(const uint8_t* scales, int group) {
  const int low = group < 8 ? scales[group] & 15 : scales[group - 8] >> 4;
  const int high = (scales[8 + group % 4] >> (2 * (group / 4))) & 3;
  return (low | (high << 4)) - 32;
}

/* Scale number `group` (0..7) of an iq4_xs block, less 32. */
static inline int minfer_iq4_xs_scale(const minfer_block_iq4_xs* b, int group) {
  const int low = (b->scales_l[group / 2] >> (4 * (group % 2))) & 15;
  const int high = (b->scales_h >> (2 * group)) & 3;
  return (low | (high << 4)) - 32;
}

/* ---- one block to f32 ------------------------------------------------------------------------ */

static inline void minfer_dequantize_q4_0(const minfer_block_q4_0* b, float* out) {
  const float d = minfer_f16_to_f32(b->d);
  for (int i = 0; i < 16; ++i) {
    out[i] = d * (float)((b->qs[i] & 15) - 8);
    out[i + 16] = d * (float)((b->qs[i] >> 4) - 8);
  }
}

static inline void minfer_dequantize_q4_1(const minfer_block_q4_1* b, float* out) {
  const float d = minfer_f16_to_f32(b->d);
  const float m = minfer_f16_to_f32(b->m);
  for (int i = 0; i < 16; ++i) {
    out[i] = d * (float)(b->qs[i] & 15) + m;
    out[i + 16] = d * (float)(b->qs[i] >> 4) + m;
  }
}

/* Bit 4 of value i of a 5-bit block, in place. */
static inline int minfer_q5_high(const uint8_t* qh, int i) {
  return ((qh[i / 8] >> (i % 8)) & 1) << 4;
}

static inline void minfer_dequantize_q5_0(const minfer_block_q5_0* b, float* out) {
  const float d = minfer_f16_to_f32(b->d);
  for (int i = 0; i < 16; ++i) {
    out[i] = d * (float)(((b->qs[i] & 15) | minfer_q5_high(b->qh, i)) - 16);
    out[i + 16] = d * (float)(((b->qs[i] >> 4) | minfer_q5_high(b->qh, i + 16)) - 16);
  }
}

static inline void minfer_dequantize_q5_1(const minfer_block_q5_1* b, float* out) {
  const float d = minfer_f16_to_f32(b->d);
  const float m = minfer_f16_to_f32(b->m);
  for (int i = 0; i < 16; ++i) {
    out[i] = d * (float)((b->qs[i] & 15) | minfer_q5_high(b->qh, i)) + m;
    out[i + 16] = d * (float)((b->qs[i] >> 4) | minfer_q5_high(b->qh, i + 16)) + m;
  }
}

static inline void minfer_dequantize_q8_0(const minfer_block_q8_0* b, float* out) {
  const float d = minfer_f16_to_f32(b->d);
  for (int i = 0; i < 32; ++i) out[i] = d * (float)b->qs[i];
}

static inline void minfer_dequantize_q2_k(const minfer_block_q2_k* b, float* out) {
  const float d = minfer_f16_to_f32(b->d);
  const float dmin = minfer_f16_to_f32(b->dmin);
  for (int i = 0; i < MINFER_QK_K; ++i) {
    const int half = i / 128, run = (i % 128) / 32, place = i % 32;
    const uint8_t scale = b->scales[i / 16];
    const int q = (b->qs[half * 32 + place] >> (2 * run)) & 3;
    out[i] = (d * (float)(scale & 15)) * (float)q - dmin * (float)(scale >> 4);
  }
}

static inline void minfer_dequantize_q3_k(const minfer_block_q3_k* b, float* out) {
  const float d = minfer_f16_to_f32(b->d);
  for (int i = 0; i < MINFER_QK_K; ++i) {
    const int half = i / 128, run = (i % 128) / 32, place = i % 32;
    const int low = (b->qs[half * 32 + place] >> (2 * run)) & 3;
    const int high = (b->hmask[place] >> (i / 32)) & 1;
    const float scale = d * (float)minfer_q3_k_scale(b->scales, i / 16);
    out[i] = scale * (float)(low - (high ? 0 : 4));
  }
}

static inline void minfer_dequantize_q4_k(const minfer_block_q4_k* b, float* out) {
  const float d = minfer_f16_to_f32(b->d);
  const float dmin = minfer_f16_to_f32(b->dmin);
  for (int group = 0; group < 8; ++group) {
    uint8_t scale, min;
    minfer_k4_scale_min(b->scales, group, &scale, &min);
    const float factor = d * (float)scale;
    const float offset = dmin * (float)min;
    const uint8_t* qs = b->qs + (group / 2) * 32;
    const int shift = 4 * (group % 2);
    for (int i = 0; i < 32; ++i) {
      out[group * 32 + i] = factor * (float)((qs[i] >> shift) & 15) - offset;
    }
  }
}

static inline void minfer_dequantize_q5_k(const minfer_block_q5_k* b, float* out) {
  const float d = minfer_f16_to_f32(b->d);
  const float dmin = minfer_f16_to_f32(b->dmin);
  for (int group = 0; group < 8; ++group) {
    uint8_t scale, min;
    minfer_k4_scale_min(b->scales, group, &scale, &min);
    const float factor = d * (float)scale;
    const float offset = dmin * (float)min;
    const uint8_t* qs = b->qs + (group / 2) * 32;
    const int shift = 4 * (group % 2);
    for (int i = 0; i < 32; ++i) {
      const int q = ((qs[i] >> shift) & 15) | (((b->qh[i] >> group) & 1) << 4);
      out[group * 32 + i] = factor * (float)q - offset;
    }
  }
}

static inline void minfer_dequantize_q6_k(const minfer_block_q6_k* b, float* out) {
  const float d = minfer_f16_to_f32(b->d);
  for (int i = 0; i < MINFER_QK_K; ++i) {
    const int half = i / 128, run = (i % 128) / 32, place = i % 32;
    const uint8_t byte = b->ql[half * 64 + (run % 2) * 32 + place];
    const int low = (byte >> (4 * (run / 2))) & 15;
    const int high = (b->qh[half * 32 + place] >> (2 * run)) & 3;
    out[i] = (d * (float)b->scales[i / 16]) * (float)((low | (high << 4)) - 32);
  }
}

static inline void minfer_dequantize_iq4_nl(const minfer_block_iq4_nl* b, float* out) {
  const float d = minfer_f16_to_f32(b->d);
  for (int i = 0; i < 16; ++i) {
    out[i] = d * (float)minfer_iq4_values[b->qs[i] & 15];
    out[i + 16] = d * (float)minfer_iq4_values[b->qs[i] >> 4];
  }
}

static inline void minfer_dequantize_iq4_xs(const minfer_block_iq4_xs* b, float* out) {
  const float d = minfer_f16_to_f32(b->d);
  for (int group = 0; group < 8; ++group) {
    const float scale = d * (float)minfer_iq4_xs_scale(b, group);
    const uint8_t* qs = b->qs + group * 16;
    for (int i = 0; i < 16; ++i) {
      out[group * 32 + i] = scale * (float)minfer_iq4_values[qs[i] & 15];
      out[group * 32 + i + 16] = scale * (float)minfer_iq4_values[qs[i] >> 4];
    }
  }
}

static inline void minfer_dequantize_mxfp4(const minfer_block_mxfp4* b, float* out) {
  const float d = minfer_e8m0_half_to_f32(b->e);
  for (int i = 0; i < 16; ++i) {
    out[i] = d * (float)minfer_mxfp4_values[b->qs[i] & 15];
    out[i + 16] = d * (float)minfer_mxfp4_values[b->qs[i] >> 4];
  }
}

/* ---- a row to f32 ---------------------------------------------------------------------------- */

/* Dequantises n values (a multiple of the block's) of `type` from `src`, which needs no alignment.
 * Returns 0, or -1 for a type that is not a weight type. */
static inline int minfer_dequantize_row(uint32_t type, const void* src, int64_t n, float* out) {
  const uint8_t* p = (const uint8_t*)src;
  if (type == MINFER_TYPE_F32) {
    memcpy(out, p, (size_t)n * 4);
    return 0;
  }
  if (type == MINFER_TYPE_F16 || type == MINFER_TYPE_BF16) {
    for (int64_t i = 0; i < n; ++i) {
      uint16_t h;
      memcpy(&h, p + i * 2, 2);
      out[i] = type == MINFER_TYPE_F16 ? minfer_f16_to_f32(h) : minfer_bf16_to_f32(h);
    }
    return 0;
  }
#define MINFER_DEQUANTIZE_CASE(TYPE, name)                               \
  case TYPE:                                                             \
    for (int64_t i = 0; i < n; i += minfer_type_values(TYPE)) {          \
      minfer_block_##name b;                                             \
      memcpy(&b, p + i / minfer_type_values(TYPE) * sizeof b, sizeof b); \
      minfer_dequantize_##name(&b, out + i);                             \
    }                                                                    \
    return 0;
  switch (type) {
    MINFER_DEQUANTIZE_CASE(MINFER_TYPE_Q4_0, q4_0)
    MINFER_DEQUANTIZE_CASE(MINFER_TYPE_Q4_1, q4_1)
    MINFER_DEQUANTIZE_CASE(MINFER_TYPE_Q5_0, q5_0)
    MINFER_DEQUANTIZE_CASE(MINFER_TYPE_Q5_1, q5_1)
    MINFER_DEQUANTIZE_CASE(MINFER_TYPE_Q8_0, q8_0)
    MINFER_DEQUANTIZE_CASE(MINFER_TYPE_Q2_K, q2_k)
    MINFER_DEQUANTIZE_CASE(MINFER_TYPE_Q3_K, q3_k)
    MINFER_DEQUANTIZE_CASE(MINFER_TYPE_Q4_K, q4_k)
    MINFER_DEQUANTIZE_CASE(MINFER_TYPE_Q5_K, q5_k)
    MINFER_DEQUANTIZE_CASE(MINFER_TYPE_Q6_K, q6_k)
    MINFER_DEQUANTIZE_CASE(MINFER_TYPE_IQ4_NL, iq4_nl)
    MINFER_DEQUANTIZE_CASE(MINFER_TYPE_IQ4_XS, iq4_xs)
    MINFER_DEQUANTIZE_CASE(MINFER_TYPE_MXFP4, mxfp4)
    default:
      return -1;
  }
#undef MINFER_DEQUANTIZE_CASE
}

#ifdef __cplusplus
}
#endif

#endif /* MINFER_QUANT_BLOCKS_H */
