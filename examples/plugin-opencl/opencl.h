/*
 * A backend on OpenCL 1.2: device buffers, asynchronous in-order queues, one kernel per node. It
 * shows that the plugin boundary serves an accelerator that is not CUDA. Matrices stay in the
 * common block formats of the file; kernels decode them while they multiply.
 *
 * OpenCL objects are safe from any thread but for the arguments of kernels, so every plan has its
 * own.
 */
#ifndef OPENCL_BACKEND_H
#define OPENCL_BACKEND_H

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <minfer/plugin_helper.h>
#include <stdatomic.h>
#include <threads.h>

#define ALIGNMENT 64u
#define MAX_HEAD_DIM 256u

struct weight {
  uint64_t model, id;
  uint32_t n_users;
  uint32_t type; /* MINFER_TYPE_* in which it is held */
  uint64_t bytes;
  cl_mem memory;
  struct weight* next;
};

struct minfer_device {
  cl_device_id id;
  cl_context context;
  cl_program program;
  cl_command_queue loader; /* for uploads of weights and tables */
  uint64_t total, largest; /* bytes of the device, and of one buffer */
  mtx_t lock;              /* recursive; of `weights` */
  struct weight* weights;
  atomic_uint_fast64_t held, peak;
};

struct minfer_weights {
  minfer_device* device;
  uint32_t n;
  struct weight* list[];
};

struct minfer_buffer {
  minfer_device* device;
  uint64_t bytes;
  cl_mem memory;
};

struct minfer_queue {
  minfer_device* device;
  cl_command_queue queue;
};

struct minfer_plan {
  minfer_device* device;
  minfer_simple_plan* simple;
  cl_kernel* kernels;      /* per node */
  cl_mem* turns;           /* per node: of ROPE */
  struct weight** weights; /* per tensor, from bind */
};

/* Status and text for an OpenCL error. */
minfer_status cl_fail(minfer_error* error, cl_int code, const char* what);
/* Memory of the device, counted; NULL with the error filled. */
cl_mem device_alloc(minfer_device* device, uint64_t bytes, minfer_status* status,
                    minfer_error* error);
void device_release(minfer_device* device, cl_mem memory, uint64_t bytes);

minfer_status weights_size(minfer_device* device, const minfer_weight_unit* unit,
                           const minfer_gate_values* gates, uint64_t* bytes, minfer_error* error);
minfer_status weights_import(minfer_device* device, const minfer_weight_unit* unit,
                             const minfer_gate_values* gates, minfer_weights** out,
                             minfer_error* error);
void weights_free(minfer_weights* weights);
struct weight* find_weight(minfer_device* device, uint64_t model, uint64_t id);

/* nodes.c */
const char* kernel_name(uint32_t op);
minfer_status make_turns(minfer_plan* plan, uint32_t node, minfer_error* error);
minfer_status run_node(void* plan, minfer_queue* queue, const minfer_node_call* call,
                       minfer_error* error);

#endif
