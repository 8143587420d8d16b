/*
 * Weights, shared between imports of one model. Matrices and tables in the common block formats
 * stay as they are in the file, since their kernels read those; the rest becomes f32 on its way to
 * the device. Any thread.
 */
#include <minfer/plugin_check.h>
#include <stdlib.h>

#include "opencl.h"

#define CHUNK_FLOATS ((int64_t)1 << 20)

/* The type in which a weight is held. */
static uint32_t held_type(const minfer_weight* w) {
  if ((w->uses & ~(MINFER_USE_MATMUL | MINFER_USE_GATHER)) != 0) return MINFER_TYPE_F32;
  switch (w->type) {
    case MINFER_TYPE_Q4_0:
    case MINFER_TYPE_Q4_1:
    case MINFER_TYPE_Q5_0:
    case MINFER_TYPE_Q5_1:
    case MINFER_TYPE_Q8_0:
    case MINFER_TYPE_Q4_K:
    case MINFER_TYPE_Q5_K:
    case MINFER_TYPE_Q6_K:
      return w->type;
    default:
      return MINFER_TYPE_F32;
  }
}

static int64_t count(const minfer_weight* w) {
  return w->ne[0] * w->ne[1] * w->ne[2] * w->ne[3];
}

static uint64_t held_bytes(const minfer_weight* w) {
  const uint32_t type = held_type(w);
  return (uint64_t)count(w) / minfer_type_values(type) * minfer_type_bytes(type);
}

struct weight* find_weight(minfer_device* device, uint64_t model, uint64_t id) {
  mtx_lock(&device->lock);
  struct weight* it = device->weights;
  while (it != NULL && (it->model != model || it->id != id)) it = it->next;
  mtx_unlock(&device->lock);
  return it;
}

minfer_status weights_size(minfer_device* device, const minfer_weight_unit* given,
                           const minfer_gate_values* gates, uint64_t* bytes, minfer_error* error) {
  (void)gates;
  minfer_weight_unit unit;
  const minfer_status status = minfer_check_weights(given, &unit, error);
  if (status != MINFER_OK) return status;
  *bytes = 0;
  for (uint32_t i = 0; i < unit.n_weights; ++i) {
    const minfer_weight w = minfer_weight_at(&unit, i);
    if (find_weight(device, unit.model, w.id) == NULL) *bytes += held_bytes(&w);
  }
  return MINFER_OK;
}

static minfer_status upload(minfer_device* device, const minfer_weight* w, cl_mem memory,
                            minfer_error* error) {
  if (held_type(w) == w->type) {
    const cl_int code = clEnqueueWriteBuffer(device->loader, memory, CL_TRUE, 0, held_bytes(w),
                                             w->mapping + w->offset, 0, NULL, NULL);
    return code == CL_SUCCESS ? MINFER_OK : cl_fail(error, code, "an upload of weights");
  }
  const int64_t n = count(w), values = minfer_type_values(w->type);
  const int64_t chunk = CHUNK_FLOATS < n ? CHUNK_FLOATS : n; /* a multiple of every block, or all */
  float* floats = malloc((size_t)chunk * sizeof *floats);
  if (floats == NULL) return minfer_fail(error, MINFER_OOM_HOST, "no memory for an upload");
  cl_int code = CL_SUCCESS;
  for (int64_t at = 0; at < n && code == CL_SUCCESS; at += chunk) {
    const int64_t m = n - at < chunk ? n - at : chunk;
    const uint8_t* from = w->mapping + w->offset + at / values * minfer_type_bytes(w->type);
    minfer_dequantize_row(w->type, from, m, floats);
    code = clEnqueueWriteBuffer(device->loader, memory, CL_TRUE, (size_t)at * sizeof(float),
                                (size_t)m * sizeof(float), floats, 0, NULL, NULL);
  }
  free(floats);
  return code == CL_SUCCESS ? MINFER_OK : cl_fail(error, code, "an upload of weights");
}

static minfer_status acquire(minfer_device* device, uint64_t model, const minfer_weight* w,
                             struct weight** out, minfer_error* error) {
  mtx_lock(&device->lock);
  struct weight* it = find_weight(device, model, w->id);
  if (it != NULL) ++it->n_users;
  mtx_unlock(&device->lock);
  *out = it;
  if (it != NULL) return MINFER_OK;
  const uint64_t bytes = held_bytes(w);
  minfer_status status;
  cl_mem memory = device_alloc(device, bytes, &status, error);
  if (memory == NULL) return status;
  status = upload(device, w, memory, error);
  it = status == MINFER_OK ? calloc(1, sizeof *it) : NULL;
  if (it == NULL) {
    device_release(device, memory, bytes);
    return status != MINFER_OK ? status : minfer_fail(error, MINFER_OOM_HOST, "no memory");
  }
  mtx_lock(&device->lock);
  *it = (struct weight){model, w->id, 1, held_type(w), bytes, memory, device->weights};
  device->weights = it;
  mtx_unlock(&device->lock);
  *out = it;
  return MINFER_OK;
}

void weights_free(minfer_weights* weights) {
  minfer_device* device = weights->device;
  for (uint32_t i = 0; i < weights->n; ++i) {
    struct weight* it = weights->list[i];
    mtx_lock(&device->lock);
    const int is_last = --it->n_users == 0;
    struct weight** at = &device->weights;
    while (is_last && *at != it) at = &(*at)->next;
    if (is_last) *at = it->next;
    mtx_unlock(&device->lock);
    if (!is_last) continue;
    device_release(device, it->memory, it->bytes);
    free(it);
  }
  free(weights);
}

minfer_status weights_import(minfer_device* device, const minfer_weight_unit* given,
                             const minfer_gate_values* gates, minfer_weights** out,
                             minfer_error* error) {
  (void)gates;
  minfer_weight_unit unit;
  minfer_status status = minfer_check_weights(given, &unit, error);
  if (status != MINFER_OK) return status;
  minfer_weights* weights =
      calloc(1, sizeof *weights + (size_t)unit.n_weights * sizeof(struct weight*));
  if (weights == NULL) return minfer_fail(error, MINFER_OOM_HOST, "no memory for a unit's list");
  weights->device = device;
  for (uint32_t i = 0; i < unit.n_weights; ++i) {
    const minfer_weight w = minfer_weight_at(&unit, i);
    status = w.mapping == NULL ? minfer_fail(error, MINFER_INVALID, "a weight has no bytes")
                               : acquire(device, unit.model, &w, &weights->list[i], error);
    if (status != MINFER_OK) {
      weights_free(weights);
      return status;
    }
    ++weights->n;
  }
  for (uint32_t i = 0; unit.release != NULL && i < unit.n_weights; ++i) {
    unit.release(unit.release_ctx, minfer_weight_at(&unit, i).id);
  }
  *out = weights;
  return MINFER_OK;
}
