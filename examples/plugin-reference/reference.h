/*
 * A backend in plain C11 that shows what a plugin is: weights as they lie in the file, buffers in
 * host memory, one function per operator. It runs whole models; it is written to be read, and to be
 * compared with, not to be fast.
 *
 * A device and its weights may be used from several threads (`lock`); a plan from one at a time.
 */
#ifndef REFERENCE_H
#define REFERENCE_H

#include <minfer/plugin_helper.h>
#include <stdint.h>
#include <threads.h>

/* The file's bytes of one weight, held once for all imports of its model. */
struct weight {
  uint64_t model, id;
  uint32_t n_users; /* imports that hold it */
  uint32_t type;
  uint64_t bytes;
  uint8_t* data;
  struct weight* next;
};

struct minfer_device {
  mtx_t lock;
  struct weight* weights;
  uint64_t held, peak; /* bytes of weights and buffers */
};

struct minfer_weights {
  minfer_device* device;
  uint32_t n;
  struct weight* list[];
};

struct minfer_buffer {
  minfer_device* device;
  uint64_t bytes;
  uint8_t* data;
};

struct minfer_plan {
  minfer_device* device;
  minfer_simple_plan* simple;
  struct weight** weights; /* per tensor, from bind; NULL where it is none */
  float* scratch;          /* a dequantised row, or what attention needs */
};

/* plugin.c: memory of the device. NULL when there is not enough; the error is filled then. */
uint8_t* device_malloc(minfer_device* device, uint64_t bytes, minfer_error* error);
void device_free(minfer_device* device, uint8_t* data, uint64_t bytes);

/* weights.c */
minfer_status weights_size(minfer_device* device, const minfer_weight_unit* unit,
                           const minfer_gate_values* gates, uint64_t* bytes, minfer_error* error);
minfer_status weights_import(minfer_device* device, const minfer_weight_unit* unit,
                             const minfer_gate_values* gates, minfer_weights** out,
                             minfer_error* error);
void weights_free(minfer_weights* weights);
struct weight* find_weight(minfer_device* device, uint64_t model, uint64_t id);

/* operators.c: a minfer_node_fn whose author is the plan, and the scratch that it needs. */
minfer_status run_node(void* plan, minfer_queue* queue, const minfer_node_call* call,
                       minfer_error* error);
uint64_t scratch_floats(const minfer_simple_plan* plan);

#endif
