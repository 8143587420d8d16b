/*
 * Weights: copied out of the mapped file at import, as they are. One that another import of the
 * same model holds is shared. Any thread.
 */
#include <minfer/plugin_check.h>
#include <stdlib.h>
#include <string.h>

#include "reference.h"

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
    if (find_weight(device, unit.model, w.id) == NULL) *bytes += w.bytes;
  }
  return MINFER_OK;
}

/* Shares what is held, or copies; NULL when there is no memory. */
static struct weight* acquire(minfer_device* device, uint64_t model, const minfer_weight* w,
                              minfer_error* error) {
  mtx_lock(&device->lock);
  struct weight* it = find_weight(device, model, w->id);
  if (it != NULL) ++it->n_users;
  mtx_unlock(&device->lock);
  if (it != NULL) return it;
  it = calloc(1, sizeof *it);
  uint8_t* data = it != NULL ? device_malloc(device, w->bytes, error) : NULL;
  if (data == NULL) {
    free(it);
    return NULL;
  }
  memcpy(data, w->mapping + w->offset, w->bytes);
  mtx_lock(&device->lock);
  *it = (struct weight){model, w->id, 1, w->type, w->bytes, data, device->weights};
  device->weights = it;
  mtx_unlock(&device->lock);
  return it;
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
    device_free(device, it->data, it->bytes);
    free(it);
  }
  free(weights);
}

minfer_status weights_import(minfer_device* device, const minfer_weight_unit* given,
                             const minfer_gate_values* gates, minfer_weights** out,
                             minfer_error* error) {
  (void)gates;
  minfer_weight_unit unit;
  const minfer_status status = minfer_check_weights(given, &unit, error);
  if (status != MINFER_OK) return status;
  minfer_weights* weights =
      calloc(1, sizeof *weights + (size_t)unit.n_weights * sizeof(struct weight*));
  if (weights == NULL) return minfer_fail(error, MINFER_OOM_HOST, "no memory for a unit's list");
  weights->device = device;
  for (uint32_t i = 0; i < unit.n_weights; ++i) {
    const minfer_weight w = minfer_weight_at(&unit, i);
    if (w.mapping != NULL) weights->list[i] = acquire(device, unit.model, &w, error);
    if (weights->list[i] == NULL) {
      weights_free(weights);
      return w.mapping != NULL ? MINFER_OOM_HOST
                               : minfer_fail(error, MINFER_INVALID, "a weight has no bytes");
    }
    ++weights->n;
  }
  /* Nothing of the file is read from here on, so all of it can be let go. */
  for (uint32_t i = 0; unit.release != NULL && i < unit.n_weights; ++i) {
    unit.release(unit.release_ctx, minfer_weight_at(&unit, i).id);
  }
  *out = weights;
  return MINFER_OK;
}
