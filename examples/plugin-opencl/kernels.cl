/*
 * The operators of docs/operators.md, computed in float32. A tensor is a buffer and a view: byte offset, valid
 * lengths, byte strides that are 0 along axes of length 1.
 */
typedef struct {
  long offset, ne[4], nb[4];
} view;

#define AT(type, data, v, i0, i1, i2, i3)                                                         \
  ((global type*)((data) + (v).offset + (i0) * (v).nb[0] + (i1) * (v).nb[1] + (i2) * (v).nb[2] + \
                  (i3) * (v).nb[3]))

/* Sums in eight lanes: fast where there are vectors, and less rounding. */
float dot_rows(global const float* a, global const float* b, long n) {
  float8 sum = 0.0f;
  long i = 0;
  for (; i + 8 <= n; i += 8) sum += vload8(0, a + i) * vload8(0, b + i);
  float rest = 0.0f;
  for (; i < n; ++i) rest += a[i] * b[i];
  const float4 half_sum = sum.lo + sum.hi;
  return (half_sum.x + half_sum.y) + (half_sum.z + half_sum.w) + rest;
}

/* ---- weights: f32, or blocks as they lie in the file (minfer/quant_blocks.h), whose values are exact:
 * a product is rounded before anything is added to it ---- */

#define GROUP 32
#define Q4_0 2
#define Q4_1 3
#define Q5_0 6
#define Q5_1 7
#define Q8_0 8
#define Q4_K 12
#define Q5_K 13
#define Q6_K 14

float half_at(global const uchar* bytes) {
  return vload_half(0, (global const half*)bytes);
}

/* Formats of 32 values a block: d, with _1 a minimum, for 5 bits the high ones, then nibbles. */
void decode_small(global const uchar* row, long group, uint type, float* out) {
#pragma OPENCL FP_CONTRACT OFF
  const int has_min = type == Q4_1 || type == Q5_1, has_high = type == Q5_0 || type == Q5_1;
  const int high_at = has_min ? 4 : 2, nibbles_at = high_at + (has_high ? 4 : 0);
  global const uchar* block = row + group * (nibbles_at + 16);
  const float d = half_at(block), offset = has_min ? half_at(block + 2) : d * (has_high ? -16 : -8);
  for (int i = 0; i < 16; ++i) {
    int low = block[nibbles_at + i] & 15, high = block[nibbles_at + i] >> 4;
    if (has_high) {
      low |= (block[high_at + i / 8] >> i % 8 & 1) << 4;
      high |= (block[high_at + 2 + i / 8] >> i % 8 & 1) << 4;
    }
    out[i] = d * low + offset;
    out[i + 16] = d * high + offset;
  }
}

/* Q4_K and Q5_K: eight groups, each with a scale and a minimum of 6 bits. */
void decode_k(global const uchar* row, long group, uint type, float* out) {
#pragma OPENCL FP_CONTRACT OFF
  const int high_at = 16, nibbles_at = type == Q5_K ? 48 : 16, g = group % 8;
  global const uchar* block = row + group / 8 * (nibbles_at + 128);
  global const uchar* scales = block + 4;
  const int scale = g < 4 ? scales[g] & 63 : (scales[g + 4] & 15) | scales[g - 4] >> 6 << 4;
  const int least = g < 4 ? scales[g + 4] & 63 : scales[g + 4] >> 4 | scales[g] >> 6 << 4;
  const float d = half_at(block) * scale, offset = half_at(block + 2) * least;
  for (int i = 0; i < GROUP; ++i) {
    int q = block[nibbles_at + g / 2 * 32 + i] >> 4 * (g % 2) & 15;
    if (type == Q5_K) q |= (block[high_at + i] >> g & 1) << 4;
    out[i] = d * q - offset;
  }
}

void decode_q6_k(global const uchar* row, long group, float* out) {
  const int part = group % 8 / 4, run = group % 4;
  global const uchar* block = row + group / 8 * 210;
  global const uchar* low = block + part * 64 + run % 2 * 32;
  global const uchar* high = block + 128 + part * 32;
  global const char* scales = (global const char*)block + 192 + group % 8 * 2;
  const float d = half_at(block + 208);
  for (int i = 0; i < GROUP; ++i) {
    const int q = (low[i] >> 4 * (run / 2) & 15) | (high[i] >> 2 * run & 3) << 4;
    out[i] = d * scales[i / 16] * (q - 32);
  }
}

/* 32 values of a row of weights, number `group`. */
void decode(global const uchar* row, long group, uint type, float* out) {
  if (type == Q8_0) {
    global const char* block = (global const char*)row + group * 34;
    const float d = half_at((global const uchar*)block);
    for (int i = 0; i < GROUP; ++i) out[i] = d * block[2 + i];
  } else if (type == Q4_K || type == Q5_K) {
    decode_k(row, group, type, out);
  } else if (type == Q6_K) {
    decode_q6_k(row, group, out);
  } else {
    decode_small(row, group, type, out);
  }
}

/* One work item per element; `op` is the ABI's number. */
kernel void elementwise(global char* a, view va, global char* b, view vb, global char* out, view vo,
                        uint op, float p, float q) {
  long i = get_global_id(0);
  if (i >= vo.ne[0] * vo.ne[1] * vo.ne[2] * vo.ne[3]) return;
  const long i0 = i % vo.ne[0];
  i /= vo.ne[0];
  const long i1 = i % vo.ne[1];
  i /= vo.ne[1];
  const long i2 = i % vo.ne[2], i3 = i / vo.ne[2];
  const float x = *AT(float, a, va, i0, i1, i2, i3);
  float y = 0.0f;
  if (op == 2) y = x + *AT(float, b, vb, i0, i1, i2, i3);
  if (op == 3) y = x * *AT(float, b, vb, i0, i1, i2, i3);
  if (op == 4) y = x * p + q;
  if (op == 10) y = x / (1.0f + exp(-x));
  if (op == 11 && p == 0.0f) y = 0.5f * x * (1.0f + tanh(0.79788456f * (x + 0.044715f * x * x * x)));
  if (op == 11 && p == 1.0f) y = 0.5f * x * erfc(-x * 0.70710678f);
  if (op == 11 && p == 2.0f) y = x / (1.0f + exp(-1.702f * x));
  if (op == 13) y = p * tanh(x / p);
  *AT(float, out, vo, i0, i1, i2, i3) = y;
}

/* One work item per row. */
kernel void rms_norm(global char* x, view vx, global char* w, uint has_weight, global char* out, view vo,
                     float eps, float weight_offset) {
  const long i1 = get_global_id(0), i2 = get_global_id(1), i3 = get_global_id(2), n = vx.ne[0];
  global const float* row = AT(float, x, vx, 0, i1, i2, i3);
  global const float* weight = (global const float*)w;
  global float* to = AT(float, out, vo, 0, i1, i2, i3);
  const float factor = 1.0f / sqrt(dot_rows(row, row, n) / n + eps);
  for (long i = 0; i < n; ++i) to[i] = row[i] * factor * (has_weight ? weight[i] + weight_offset : 1.0f);
}

/* `turns` holds for each pair how far a position turns it, in whole turns, as a sum of two floats: the
 * whole turns of the product cancel before anything is rounded, at any position. */
float2 divide(float2 turn, float by) {
  const float quotient = turn.x / by;
  return (float2)(quotient, (fma(-quotient, by, turn.x) + turn.y) / by);
}

kernel void rope(global char* x, view vx, global char* pos, view vp, global const float2* turns,
                 global const float* factors, uint has_factors, float magnitude, uint n_rot, uint mode,
                 global char* out, view vo) {
  const long head = get_global_id(0), token = get_global_id(1);
  global const float* row = AT(float, x, vx, 0, head, token, 0);
  global float* to = AT(float, out, vo, 0, head, token, 0);
  const float position = (float)*AT(int, pos, vp, token, 0, 0, 0);
  const uint half_rot = n_rot / 2;
  for (uint pair = 0; pair < half_rot; ++pair) {
    const float2 turn = has_factors ? divide(turns[pair], factors[pair]) : turns[pair];
    const float product = position * turn.x;
    const float rest = fma(position, turn.x, -product) + position * turn.y;
    const float angle = 6.2831853f * ((product - rint(product)) + rest);
    const float c = cos(angle) * magnitude, s = sin(angle) * magnitude;
    const uint i = mode == 0 ? pair : 2 * pair, j = mode == 0 ? pair + half_rot : 2 * pair + 1;
    const float a = row[i], b = row[j];
    to[i] = a * c - b * s;
    to[j] = a * s + b * c;
  }
  for (long i = n_rot; i < vx.ne[0]; ++i) to[i] = row[i];
}

/* One work item per 32 values. */
kernel void get_rows(global char* table, view vt, uint type, global char* rows, view vr, global char* out,
                     view vo) {
  const long group = get_global_id(0), r = get_global_id(1);
  const long n = min((long)GROUP, vo.ne[0] - group * GROUP);
  if (n <= 0) return;
  global char* row = AT(char, table, vt, 0, *AT(int, rows, vr, r, 0, 0, 0), 0, 0);
  global float* to = AT(float, out, vo, group * GROUP, r, 0, 0);
  float values[GROUP];
  if (type != 0) decode((global const uchar*)row, group, type, values);
  for (int i = 0; i < n; ++i) to[i] = type != 0 ? values[i] : ((global const float*)row)[group * GROUP + i];
}

kernel void matmul(global char* w, view vw, uint type, global char* x, view vx, global char* bias,
                   uint has_bias, global char* out, view vo) {
  const long o = get_global_id(0), t = get_global_id(1);
  if (o >= vo.ne[0]) return;
  global char* row = AT(char, w, vw, 0, o, 0, 0);
  global const float* column = AT(float, x, vx, 0, t, 0, 0);
  float sum = 0.0f;
  if (type == 0) {
    sum = dot_rows((global const float*)row, column, vx.ne[0]);
  } else {
    float8 lanes = 0.0f;
    for (long group = 0; group < vx.ne[0] / GROUP; ++group) {
      float values[GROUP];
      decode((global const uchar*)row, group, type, values);
      for (int i = 0; i < GROUP / 8; ++i) lanes += vload8(i, values) * vload8(i, column + group * GROUP);
    }
    const float4 four = lanes.lo + lanes.hi;
    sum = (four.x + four.y) + (four.z + four.w);
  }
  *AT(float, out, vo, o, t, 0, 0) = sum + (has_bias ? ((global const float*)bias)[o] : 0.0f);
}

/* NaN is chosen only where there is nothing else; the lowest index among equals. */
kernel void arg_max(global char* x, view vx, global char* out, view vo) {
  const long r = get_global_id(0);
  global const float* row = AT(float, x, vx, 0, r, 0, 0);
  int best = 0;
  for (int i = 1; i < vx.ne[0]; ++i) {
    if (row[i] > row[best] || (isnan(row[best]) && !isnan(row[i]))) best = i;
  }
  *AT(int, out, vo, r, 0, 0, 0) = best;
}

/* ---- the KV cache, in the layout of minfer/plugin_kv.h; rows in f32, f16 or q8_0 ---- */

#define F16 1

typedef struct {
  long page_bytes, v_start, k_row, v_row;
  int heads, dim_k, dim_v, page_tokens, type, reserved;
} pages;

global char* kv_row(global char* region, pages kv, long slot, long head, int is_v) {
  const long row = slot % kv.page_tokens * kv.heads + head;
  region += slot / kv.page_tokens * kv.page_bytes;
  return is_v ? region + kv.v_start + row * kv.v_row : region + row * kv.k_row;
}

float load(global const char* row, int i, int type) {
  if (type == F16) return vload_half(i, (global const half*)row);
  if (type != Q8_0) return ((global const float*)row)[i];
  row += i / GROUP * 34;
  return half_at((global const uchar*)row) * row[2 + i % GROUP];
}

void store_q8_0(global const float* from, int n, global char* row) {
  for (int at = 0; at < n; at += GROUP, row += 34) {
    float largest = 0.0f;
    for (int i = 0; i < GROUP; ++i) largest = fmax(largest, fabs(from[at + i]));
    const float inverse = largest > 0.0f ? 127.0f / largest : 0.0f;
    vstore_half_rte(largest / 127.0f, 0, (global half*)row);
    for (int i = 0; i < GROUP; ++i) row[2 + i] = convert_char_sat(round(from[at + i] * inverse));
  }
}

void store(global const float* from, int n, global char* row, int type) {
  if (type == Q8_0) store_q8_0(from, n, row);
  for (int i = 0; i < n && type == F16; ++i) vstore_half_rte(from[i], i, (global half*)row);
  for (int i = 0; i < n && type == 0; ++i) ((global float*)row)[i] = from[i];
}

kernel void kv_store(global char* k, view vk, global char* v, view vv, global char* slots, view vs,
                     global char* region, pages kv) {
  const long head = get_global_id(0), token = get_global_id(1);
  const long slot = *AT(long, slots, vs, token, 0, 0, 0);
  if (slot < 0) return;
  store(AT(float, k, vk, 0, head, token, 0), kv.dim_k, kv_row(region, kv, slot, head, 0), kv.type);
  store(AT(float, v, vv, 0, head, token, 0), kv.dim_v, kv_row(region, kv, slot, head, 1), kv.type);
}

/* One work item per head and token: a streaming softmax over the positions that the token sees. */
kernel void attention(global char* q, view vq, global char* pos, view vp, global char* q_start, view vstart,
                      global char* kv_len, view vlen, global char* table, view vt, global char* sinks,
                      uint has_sinks, global char* region, pages kv, global char* out, long out_offset,
                      long head_stride, long token_stride, uint n_head, uint window, uint causal,
                      float scale, float soft_cap) {
  const long head = get_global_id(0), token = get_global_id(1);
  const long kv_head = head / (n_head / kv.heads);
  global const float* query = AT(float, q, vq, 0, head, token, 0);
  global float* to = (global float*)(out + out_offset + token * token_stride + head * head_stride);
  float acc[MAX_HEAD_DIM];
  for (int i = 0; i < kv.dim_v; ++i) acc[i] = 0.0f;
  long s = 0;
  while (s < vlen.ne[0] && token >= *AT(int, q_start, vstart, s + 1, 0, 0, 0)) ++s;
  const int is_in = s < vlen.ne[0] && token >= *AT(int, q_start, vstart, s, 0, 0, 0);
  const long position = is_in ? *AT(int, pos, vp, token, 0, 0, 0) : 0;
  long end = is_in ? *AT(int, kv_len, vlen, s, 0, 0, 0) : 0;
  if (causal) end = min(end, position + 1);
  const long begin = window != 0 ? max(0L, position + 1 - (long)window) : 0;
  float largest = has_sinks && begin < end ? ((global const float*)sinks)[head] : -INFINITY;
  float sum = largest == -INFINITY ? 0.0f : 1.0f;
  for (long j = begin; j < end; ++j) {
    const long slot = (long)*AT(int, table, vt, j / kv.page_tokens, s, 0, 0) * kv.page_tokens +
                      j % kv.page_tokens;
    global const char* k = kv_row(region, kv, slot, kv_head, 0);
    global const char* v = kv_row(region, kv, slot, kv_head, 1);
    float score = 0.0f;
    for (int i = 0; i < kv.dim_k; ++i) score += query[i] * load(k, i, kv.type);
    score *= scale;
    if (soft_cap != 0.0f) score = soft_cap * tanh(score / soft_cap);
    if (score > largest) {
      const float factor = exp(largest - score);
      sum *= factor;
      for (int i = 0; i < kv.dim_v; ++i) acc[i] *= factor;
      largest = score;
    }
    const float weight = exp(score - largest);
    sum += weight;
    for (int i = 0; i < kv.dim_v; ++i) acc[i] += weight * load(v, i, kv.type);
  }
  for (int i = 0; i < kv.dim_v; ++i) to[i] = sum > 0.0f ? acc[i] / sum : 0.0f;
}
