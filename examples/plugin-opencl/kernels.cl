/*
 * The operators of docs/operators.md in float32. A tensor is a buffer and a view: byte offset, valid
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
kernel void rope(global char* x, view vx, global char* pos, view vp, global const float2* turns, float magnitude,
                 uint n_rot, uint mode, global char* out, view vo) {
  const long head = get_global_id(0), token = get_global_id(1);
  global const float* row = AT(float, x, vx, 0, head, token, 0);
  global float* to = AT(float, out, vo, 0, head, token, 0);
  const float position = (float)*AT(int, pos, vp, token, 0, 0, 0);
  const uint half_rot = n_rot / 2;
  for (uint pair = 0; pair < half_rot; ++pair) {
    const float2 turn = turns[pair];
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

kernel void get_rows(global char* table, view vt, global char* rows, view vr, global char* out, view vo) {
  const long i = get_global_id(0), r = get_global_id(1);
  if (i >= vo.ne[0]) return;
  *AT(float, out, vo, i, r, 0, 0) = *AT(float, table, vt, i, *AT(int, rows, vr, r, 0, 0, 0), 0, 0);
}

kernel void matmul(global char* w, view vw, global char* x, view vx, global char* bias, uint has_bias,
                   global char* out, view vo) {
  const long o = get_global_id(0), t = get_global_id(1);
  if (o >= vo.ne[0]) return;
  const float sum = dot_rows(AT(float, w, vw, 0, o, 0, 0), AT(float, x, vx, 0, t, 0, 0), vx.ne[0]);
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

/* ---- the KV cache, in the layout of minfer/plugin_kv.h; rows in f32 or f16 ---- */

typedef struct {
  long page_bytes, v_start, k_row, v_row;
  int heads, dim_k, dim_v, page_tokens, is_half, reserved;
} pages;

global char* kv_row(global char* region, pages kv, long slot, long head, int is_v) {
  const long row = slot % kv.page_tokens * kv.heads + head;
  region += slot / kv.page_tokens * kv.page_bytes;
  return is_v ? region + kv.v_start + row * kv.v_row : region + row * kv.k_row;
}

float load(global const char* row, int i, int is_half) {
  return is_half ? vload_half(i, (global const half*)row) : ((global const float*)row)[i];
}

void store(float value, global char* row, int i, int is_half) {
  if (is_half) {
    vstore_half_rte(value, i, (global half*)row);
  } else {
    ((global float*)row)[i] = value;
  }
}

kernel void kv_store(global char* k, view vk, global char* v, view vv, global char* slots, view vs,
                     global char* region, pages kv) {
  const long head = get_global_id(0), token = get_global_id(1);
  const long slot = *AT(long, slots, vs, token, 0, 0, 0);
  if (slot < 0) return;
  for (int i = 0; i < kv.dim_k; ++i)
    store(*AT(float, k, vk, i, head, token, 0), kv_row(region, kv, slot, head, 0), i, kv.is_half);
  for (int i = 0; i < kv.dim_v; ++i)
    store(*AT(float, v, vv, i, head, token, 0), kv_row(region, kv, slot, head, 1), i, kv.is_half);
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
    for (int i = 0; i < kv.dim_k; ++i) score += query[i] * load(k, i, kv.is_half);
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
    for (int i = 0; i < kv.dim_v; ++i) acc[i] += weight * load(v, i, kv.is_half);
  }
  for (int i = 0; i < kv.dim_v; ++i) to[i] = sum > 0.0f ? acc[i] / sum : 0.0f;
}
