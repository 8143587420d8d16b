/*
 * The boundary between the minfer core and its backends (C11, also valid C++).
 *
 * A plugin is a shared library with one exported symbol, `minfer_plugin_query_v1`. The core calls it
 * with a table of host functions and receives a table of plugin functions. Nothing else crosses: no
 * C++ type, no exception, no allocation that one side makes and the other frees, no printing.
 *
 * Growth. Every struct that may grow starts with `uint32_t struct_size`, is only appended to and is
 * passed by pointer or in an array with an explicit stride. A reader uses the fields that lie within
 * struct_size and takes zero for the rest; a writer fills what fits. A function exists if its slot
 * lies within the table's struct_size and is not NULL. Functions marked (optional) may be NULL. Major
 * version in the symbol's name, minor in both tables. Version 1.0 is frozen: what is here stays as it
 * is, and only grows as said above.
 *
 * Errors. Functions return a status; on failure they may write a text to `error` (never NULL, 512
 * bytes, owned by the caller) and leave every other output untouched. Faults of queued work surface
 * at the next wait on that queue or on an event of it, and stay.
 *
 * Threads. Query and enumeration are serialised by the core. Buffer, weight and supports calls may
 * come from any thread. A queue, and the plans that run on it, are used by one thread at a time,
 * which may change. Objects of different devices are independent.
 *
 * Strings are UTF-8 and NUL-terminated. Pointers in arguments are valid during the call only, unless
 * a longer life is stated. Strings in a plugin's tables live as long as the process (plugins are
 * never unloaded). Dimensions are innermost first: ne[0] is the length of a row, nb[] are strides in
 * bytes. Operators are defined in docs/operators.md.
 */
#ifndef MINFER_PLUGIN_ABI_H
#define MINFER_PLUGIN_ABI_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MINFER_ABI_MAJOR 1u
#define MINFER_ABI_MINOR 0u
#define MINFER_QUERY_SYMBOL "minfer_plugin_query_v1"

#if defined(_WIN32)
#define MINFER_PLUGIN_EXPORT __declspec(dllexport)
#else
#define MINFER_PLUGIN_EXPORT __attribute__((visibility("default")))
#endif

/* ---- status ------------------------------------------------------------------------------- */

typedef int32_t minfer_status;
#define MINFER_OK 0
#define MINFER_UNSUPPORTED 1   /* valid, but this device or build cannot do it */
#define MINFER_INVALID 2       /* an argument breaks the contract */
#define MINFER_OOM_HOST 3      /* host memory is not enough */
#define MINFER_OOM_DEVICE 4    /* device memory is not enough; the device stays usable */
#define MINFER_DEVICE_LOST 5   /* the device is gone until the process ends */
#define MINFER_INTERNAL 6      /* a broken invariant of the plugin */
#define MINFER_CANCELLED 7     /* stopped by cancel() */
#define MINFER_VERSION 8       /* the two sides' versions do not fit */
#define MINFER_NOT_READY 9     /* event_query: not complete yet */

#define MINFER_ERROR_BYTES 512
typedef struct minfer_error {
  char text[MINFER_ERROR_BYTES];
} minfer_error;

/* ---- tensor types: the numbers are GGUF's -------------------------------------------------- */

#define MINFER_TYPE_F32 0u
#define MINFER_TYPE_F16 1u
#define MINFER_TYPE_Q4_0 2u
#define MINFER_TYPE_Q4_1 3u
#define MINFER_TYPE_Q5_0 6u
#define MINFER_TYPE_Q5_1 7u
#define MINFER_TYPE_Q8_0 8u
#define MINFER_TYPE_Q2_K 10u
#define MINFER_TYPE_Q3_K 11u
#define MINFER_TYPE_Q4_K 12u
#define MINFER_TYPE_Q5_K 13u
#define MINFER_TYPE_Q6_K 14u
#define MINFER_TYPE_IQ4_NL 20u
#define MINFER_TYPE_IQ4_XS 23u
#define MINFER_TYPE_I32 26u
#define MINFER_TYPE_I64 27u
#define MINFER_TYPE_BF16 30u
#define MINFER_TYPE_MXFP4 39u

/* ---- operators: numbers are never reused; semantics in docs/operators.md -------------------- */

#define MINFER_OP_GET_ROWS 1u
#define MINFER_OP_ADD 2u
#define MINFER_OP_MUL 3u
#define MINFER_OP_SCALE 4u
#define MINFER_OP_RMS_NORM 5u
#define MINFER_OP_MATMUL 6u
#define MINFER_OP_ROPE 7u
#define MINFER_OP_KV_STORE 8u
#define MINFER_OP_ATTENTION 9u
#define MINFER_OP_SILU 10u
#define MINFER_OP_GELU 11u
#define MINFER_OP_SOFTMAX 12u
#define MINFER_OP_SOFT_CAP 13u
#define MINFER_OP_CONCAT 14u
#define MINFER_OP_TOP_K 15u
#define MINFER_OP_MATMUL_BY_ID 16u
#define MINFER_OP_ARG_MAX 17u

/* Parameters of operators: minfer_node.params points to one of these (NULL where none is named). */

typedef struct minfer_scale_params { /* SCALE: y = x * factor + offset */
  uint32_t struct_size;
  float factor;
  float offset;
  uint32_t reserved;
} minfer_scale_params;

typedef struct minfer_norm_params { /* RMS_NORM */
  uint32_t struct_size;
  float eps;
  float weight_offset; /* added to every weight: 0, or 1 for models that store w - 1 */
  uint32_t reserved;
} minfer_norm_params;

#define MINFER_ROPE_NEOX 0u        /* pairs (i, i + n_rot/2) */
#define MINFER_ROPE_INTERLEAVED 1u /* pairs (2i, 2i + 1) */
typedef struct minfer_rope_params { /* ROPE */
  uint32_t struct_size;
  uint32_t mode;
  uint32_t n_rot;        /* dimensions rotated, from the start of each head; the rest is copied */
  uint32_t n_ctx_orig;   /* context of the original training (YaRN) */
  float freq_base;
  float freq_scale;      /* 1/factor: linear scaling, and YaRN's interpolation */
  float ext_factor;      /* 0: linear; 1: YaRN's ramp */
  float attn_factor;     /* multiplies sin and cos */
  float beta_fast;
  float beta_slow;
} minfer_rope_params;

typedef struct minfer_kv_params { /* KV_STORE */
  uint32_t struct_size;
  uint32_t kv; /* index into minfer_split.kv */
} minfer_kv_params;

typedef struct minfer_attention_params { /* ATTENTION */
  uint32_t struct_size;
  uint32_t kv;       /* index into minfer_split.kv */
  uint32_t n_head;
  uint32_t window;   /* a query at position p sees p - window < j <= p; 0: no window */
  float scale;       /* multiplies q . k */
  float soft_cap;    /* s = cap * tanh(s / cap) before the mask; 0: none */
  uint32_t causal;   /* 1, or 0: every stored position is seen */
  uint32_t reserved;
} minfer_attention_params;

#define MINFER_GELU_TANH 0u
#define MINFER_GELU_ERF 1u
#define MINFER_GELU_QUICK 2u /* x * sigmoid(1.702 x) */
typedef struct minfer_gelu_params { /* GELU */
  uint32_t struct_size;
  uint32_t kind;
} minfer_gelu_params;

typedef struct minfer_soft_cap_params { /* SOFT_CAP: y = cap * tanh(x / cap) */
  uint32_t struct_size;
  float cap;
} minfer_soft_cap_params;

typedef struct minfer_softmax_params { /* SOFTMAX over ne[0]: softmax(x * scale) */
  uint32_t struct_size;
  float scale;
} minfer_softmax_params;

typedef struct minfer_concat_params { /* CONCAT */
  uint32_t struct_size;
  uint32_t axis;
} minfer_concat_params;

typedef struct minfer_top_k_params { /* TOP_K over ne[0] */
  uint32_t struct_size;
  uint32_t k;
} minfer_top_k_params;

/* ---- the graph that a plugin sees ----------------------------------------------------------- */

#define MINFER_NONE 0xffffffffu

#define MINFER_TENSOR_ACTIVATION 0u /* written by a node */
#define MINFER_TENSOR_INPUT 1u      /* filled by the core before each run; bound like an escaping tensor */
#define MINFER_TENSOR_WEIGHT 2u     /* imported; found by (split.model, weight_id) */

#define MINFER_INPUT_TOKENS 1u      /* i32 [tokens] */
#define MINFER_INPUT_POS 2u         /* i32 [n_pos * tokens], n_pos = ne[0] where 2-D */
#define MINFER_INPUT_Q_START 3u     /* i32 [seqs + 1] first token of each sequence, then the count */
#define MINFER_INPUT_OUT_ROWS 4u    /* i32 [outs] token index of each wanted row */
#define MINFER_INPUT_SLOT 5u        /* i64 [tokens] physical slot, -1: do not store */
#define MINFER_INPUT_KV_LEN 6u      /* i32 [seqs] positions held after this step's store */
#define MINFER_INPUT_BLOCK_TABLE 7u /* i32 [max_pages, seqs] physical page of each logical page, -1: none */
#define MINFER_INPUT_TOKEN_SEQ 8u   /* i32 [tokens] sequence index of each token, -1: padding */
#define MINFER_INPUT_HIDDEN 9u      /* f32 crossing from another split */

#define MINFER_FLAG_ESCAPES 1u /* read outside the split: has the contract's type and layout */
#define MINFER_FLAG_KEEP 2u    /* observed: keep the value until the run is complete */

#define MINFER_DYN_NONE 0u
#define MINFER_DYN_TOKENS 1u
#define MINFER_DYN_SEQS 2u
#define MINFER_DYN_OUTS 3u

#define MINFER_USE_MATMUL 1u /* weight is the matrix of a MATMUL or MATMUL_BY_ID */
#define MINFER_USE_GATHER 2u /* weight is the table of a GET_ROWS */
#define MINFER_USE_PLAIN 4u  /* read elementwise: norm weights, biases, frequency factors */

typedef struct minfer_tensor {
  uint32_t struct_size;
  uint32_t type;
  uint32_t kind;
  uint32_t flags;
  int64_t ne[4];        /* at capacity; unused dimensions are 1 */
  int64_t nb[4];        /* strides in bytes; nb[0] is the element (or block) size */
  uint32_t dyn_axis;    /* axis whose valid length comes with each run, or MINFER_NONE */
  uint32_t dyn_count;   /* MINFER_DYN_*: which count it follows */
  uint32_t view_of;     /* tensor that owns the memory, or MINFER_NONE; never itself a view */
  uint32_t input;       /* MINFER_INPUT_* of an input */
  int64_t view_offset;  /* bytes from the start of view_of */
  uint64_t weight_id;   /* of a weight */
  uint32_t group;       /* KV group of an input that has one */
  uint32_t reserved;
  const char* name;
} minfer_tensor;

typedef struct minfer_node {
  uint32_t struct_size;
  uint32_t op;
  uint32_t revision;
  uint32_t n_src;
  const uint32_t* src;  /* tensor indices; MINFER_NONE for an absent optional operand */
  uint32_t dst;         /* tensor index; MINFER_NONE for KV_STORE */
  uint32_t unit;        /* placement unit, for reports */
  const void* params;
  const char* name;
} minfer_node;

/* K and V of one layer: a region of pages in the plugin's own layout. */
typedef struct minfer_kv_desc {
  uint32_t struct_size;
  uint32_t layer;
  uint32_t group;       /* layers of one group share a page table */
  uint32_t type;        /* MINFER_TYPE_F32, _F16 or _Q8_0, for K and V */
  uint32_t n_head_kv;
  uint32_t head_dim_k;
  uint32_t head_dim_v;
  uint32_t page_tokens;
  uint32_t n_pages;
  uint32_t reserved;
} minfer_kv_desc;

typedef struct minfer_capacity {
  uint32_t struct_size;
  uint32_t tokens;
  uint32_t seqs;
  uint32_t outs;
  uint32_t max_pages; /* logical pages of a sequence */
  uint32_t n_pos;
} minfer_capacity;

/* A run of nodes for one device, sources before consumers. Arrays have strides. */
typedef struct minfer_split {
  uint32_t struct_size;
  uint32_t n_tensors;
  uint32_t tensor_stride;
  uint32_t n_nodes;
  uint32_t node_stride;
  uint32_t n_kv;
  uint32_t kv_stride;
  uint32_t reserved;
  const minfer_tensor* tensors;
  const minfer_node* nodes;
  const minfer_kv_desc* kv;
  const minfer_capacity* capacity;
  uint64_t model; /* handle that weights were or will be imported under */
} minfer_split;

/* ---- gates ----------------------------------------------------------------------------------- */

#define MINFER_GATE_BOOL 0u
#define MINFER_GATE_INT 1u
#define MINFER_GATE_ENUM 2u
#define MINFER_SCOPE_LOAD 0u /* weights are held differently */
#define MINFER_SCOPE_PLAN 1u /* plans are compiled differently */
#define MINFER_SCOPE_RUN 2u

typedef struct minfer_gate {
  uint32_t struct_size;
  uint32_t type;
  uint32_t scope;
  uint32_t affects_numerics; /* 1: outputs may differ in rounding */
  const char* name;          /* MINFER_... */
  const char* help;
  int64_t default_value;     /* bool: 0 or 1; enum: index into choices */
  int64_t min_value;
  int64_t max_value;
  const char* choices;       /* enum: names separated by '|' */
} minfer_gate;

/* Values in the order of the plugin's own gate table. Immutable. */
typedef struct minfer_gate_values {
  uint32_t struct_size;
  uint32_t n;
  const int64_t* values;
} minfer_gate_values;

/* ---- devices --------------------------------------------------------------------------------- */

typedef struct minfer_device minfer_device; /* opaque; owned by the plugin */
typedef struct minfer_buffer minfer_buffer;
typedef struct minfer_queue minfer_queue;
typedef struct minfer_event minfer_event;
typedef struct minfer_weights minfer_weights;
typedef struct minfer_plan minfer_plan;

#define MINFER_DEVICE_CPU 0u
#define MINFER_DEVICE_INTEGRATED 1u
#define MINFER_DEVICE_DISCRETE 2u
#define MINFER_DEVICE_OTHER 3u

typedef struct minfer_device_info {
  uint32_t struct_size;
  uint32_t kind;
  uint32_t score;            /* 0: unusable (reason says why); CPU 100, integrated 200, discrete 300 */
  uint32_t host_accessible;  /* 1: buffer_host_pointer works */
  const char* name;          /* e.g. "NVIDIA H200" */
  const char* details;       /* e.g. "132 SMs, compute capability 9.0, driver 580.65" */
  const char* reason;        /* why unusable, or NULL */
  uint64_t memory_total;     /* bytes; 0: unknown */
  uint64_t memory_free;
  uint64_t buffer_alignment; /* of offsets in bindings, a power of two */
  uint64_t max_buffer_bytes; /* largest single buffer; 0: no limit below memory_total */
} minfer_device_info;

typedef struct minfer_memory {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t total;    /* of the device */
  uint64_t free;     /* of the device, as its driver sees it */
  uint64_t held;     /* bytes this plugin holds there now: weights, buffers, own scratch; without
                        staging that is freed once loading is over */
  uint64_t peak;     /* largest so far, staging included; at least `held` */
  uint64_t overhead; /* estimate of what the driver takes besides (context, code); 0: none */
} minfer_memory;

/* ---- weights --------------------------------------------------------------------------------- */

typedef struct minfer_weight {
  uint32_t struct_size;
  uint32_t type;
  uint32_t uses;           /* MINFER_USE_* of every use on this device */
  uint32_t reserved;
  uint64_t id;             /* tensor id within the model */
  int64_t ne[4];
  const uint8_t* mapping;  /* start of the mapped file */
  uint64_t mapping_bytes;
  uint64_t offset;         /* of the data in the mapping */
  uint64_t bytes;
  const char* name;
} minfer_weight;

/* Called exactly once for each imported weight, when the plugin will not read its bytes again: during
 * or after import where it copies, at weights_free where it aliases. Any thread. */
typedef void (*minfer_release_fn)(void* release_ctx, uint64_t weight_id);

/* The weights of one placement unit, together so that a plugin can concatenate them. */
typedef struct minfer_weight_unit {
  uint32_t struct_size;
  uint32_t unit;
  uint32_t n_weights;
  uint32_t weight_stride;
  const minfer_weight* weights;
  uint64_t model;
  minfer_release_fn release;
  void* release_ctx;
} minfer_weight_unit;

/* ---- plans ----------------------------------------------------------------------------------- */

typedef struct minfer_verdict {
  uint32_t struct_size;
  uint32_t supported;  /* 1: plan_compile of this split, or of any smaller bucket, works */
  uint32_t node;       /* first node refused, or MINFER_NONE */
  uint32_t tensor;     /* first tensor refused, or MINFER_NONE */
  char reason[256];    /* with the numbers */
} minfer_verdict;

typedef struct minfer_plan_info {
  uint32_t struct_size;
  uint32_t n_launches;       /* kernels (or parallel sections) a run starts; 0: unknown */
  uint64_t workspace_bytes;  /* bound as bindings.workspace */
  uint64_t workspace_align;
} minfer_plan_info;

typedef struct minfer_binding {
  uint32_t tensor;        /* index into the split's tensors: an input or an escaping activation */
  uint32_t reserved;
  minfer_buffer* buffer;
  uint64_t offset;
} minfer_binding;

typedef struct minfer_bindings {
  uint32_t struct_size;
  uint32_t n_bindings;
  const minfer_binding* bindings;      /* minfer_binding never grows */
  minfer_buffer* const* kv;            /* region of each entry of split.kv */
  minfer_buffer* workspace;            /* may be NULL when workspace_bytes is 0 */
  uint64_t workspace_offset;
  uint64_t generation;                 /* changes whenever addresses may have changed */
} minfer_bindings;

#define MINFER_RUN_TIMED 1u /* collect per-node times for plan_profile; captured variants are off */

typedef struct minfer_run_args {
  uint32_t struct_size;
  uint32_t flags;
  uint32_t n_tokens;    /* valid counts, within the capacity */
  uint32_t n_seqs;
  uint32_t n_outs;
  uint32_t max_kv_len;  /* upper bound of kv_len in this step, a hint for choosing a variant */
  const minfer_gate_values* gates;
} minfer_run_args;

typedef struct minfer_node_report {
  uint32_t struct_size;
  uint32_t fused_into;  /* node that does this node's work, or MINFER_NONE */
  char kernel[96];      /* label of what runs, e.g. "mmvq_q4_k/avx512vnni" */
  char why[192];        /* why a faster kernel was not chosen; empty: none faster */
} minfer_node_report;

typedef struct minfer_node_time {
  uint32_t node;
  uint32_t reserved;
  double seconds;  /* of the last timed run */
  uint64_t bytes;  /* read and written; 0: unknown */
} minfer_node_time;

/* ---- the host's table ------------------------------------------------------------------------ */

#define MINFER_LOG_DEBUG 0
#define MINFER_LOG_INFO 1
#define MINFER_LOG_WARN 2
#define MINFER_LOG_ERROR 3

typedef struct minfer_host {
  uint32_t struct_size;
  uint32_t abi_minor;
  const char* core_version;
  void* ctx;
  /* One line without a newline; any thread. */
  void (*log)(void* ctx, int32_t level, const char* line);
  /* Named extension table of the host, or NULL. */
  const void* (*get_interface)(void* ctx, const char* name, uint32_t version);
} minfer_host;

/* ---- the plugin's table ---------------------------------------------------------------------- */

typedef struct minfer_op_support {
  uint32_t op;
  uint32_t revision; /* highest known; lower ones are included */
} minfer_op_support;

typedef struct minfer_plugin {
  uint32_t struct_size;
  uint32_t abi_minor;
  const char* backend;  /* name in YAML: lower-case letters, digits, '_' and '-' */
  const char* version;
  const char* description;
  uint32_t n_gates;
  uint32_t gate_stride;
  const minfer_gate* gates;
  uint32_t n_ops;
  uint32_t op_stride;
  const minfer_op_support* ops;

  /* Devices. Writes up to `capacity` entries at `stride` and the full count; may start a driver. Zero
   * devices is no failure: `error` then says why, e.g. "not macOS". */
  minfer_status (*device_enumerate)(minfer_device_info* out, uint32_t stride, uint32_t capacity,
                                    uint32_t* n, minfer_error* error);
  minfer_status (*device_open)(uint32_t index, const minfer_gate_values* gates, minfer_device** out,
                               minfer_error* error);
  void (*device_close)(minfer_device* device);
  minfer_status (*device_memory)(minfer_device* device, minfer_memory* out, minfer_error* error);

  /* Can the device compile this split and every smaller bucket of it? Yes is a promise. Cheap, and
   * never touches weight bytes. The tables are at the largest capacity the engine will use. */
  minfer_status (*supports)(minfer_device* device, const minfer_split* split,
                            const minfer_gate_values* gates, minfer_verdict* out,
                            minfer_error* error);

  /* Weights: bytes the import will hold on the device, exactly; then the import itself. A weight id
   * that another live import of the same model already holds on this device is shared. */
  minfer_status (*weights_size)(minfer_device* device, const minfer_weight_unit* unit,
                                const minfer_gate_values* gates, uint64_t* bytes,
                                minfer_error* error);
  minfer_status (*weights_import)(minfer_device* device, const minfer_weight_unit* unit,
                                  const minfer_gate_values* gates, minfer_weights** out,
                                  minfer_error* error);
  void (*weights_free)(minfer_weights* weights);

  /* KV regions: page sizes the device can use for this layer (ascending, `n` in and out;
   * page_tokens and n_pages are not read), and the bytes of a page holding K and V. A region is a
   * buffer of n_pages * page_bytes. */
  minfer_status (*kv_page_sizes)(minfer_device* device, const minfer_kv_desc* kv, uint32_t* sizes,
                                 uint32_t* n, minfer_error* error);
  minfer_status (*kv_page_bytes)(minfer_device* device, const minfer_kv_desc* kv, uint64_t* bytes,
                                 minfer_error* error);
  /* Copies whole pages inside a region, on the queue (copy-on-write). */
  minfer_status (*kv_copy_pages)(minfer_queue* queue, const minfer_kv_desc* kv, minfer_buffer* region,
                                 const uint32_t* from, const uint32_t* to, uint32_t n,
                                 minfer_error* error);
  /* (optional) A page in canonical form: f32 K [head_dim_k, n_head_kv, page_tokens], then V alike. */
  minfer_status (*kv_export_page)(minfer_queue* queue, const minfer_kv_desc* kv,
                                  minfer_buffer* region, uint32_t page, float* out,
                                  minfer_error* error);
  minfer_status (*kv_import_page)(minfer_queue* queue, const minfer_kv_desc* kv,
                                  minfer_buffer* region, uint32_t page, const float* in,
                                  minfer_error* error);

  /* Memory. New buffers hold unspecified bytes. */
  minfer_status (*buffer_alloc)(minfer_device* device, uint64_t bytes, minfer_buffer** out,
                                minfer_error* error);
  void (*buffer_free)(minfer_buffer* buffer);
  void* (*buffer_host_pointer)(minfer_buffer* buffer); /* NULL where not host-accessible */
  /* Queue-ordered copies. The host range must stay untouched until later work on the queue is known
   * to be complete. From host_alloc memory they are asynchronous; otherwise they may block. */
  minfer_status (*buffer_write)(minfer_queue* queue, minfer_buffer* buffer, uint64_t offset,
                                const void* data, uint64_t bytes, minfer_error* error);
  minfer_status (*buffer_read)(minfer_queue* queue, minfer_buffer* buffer, uint64_t offset,
                               void* data, uint64_t bytes, minfer_error* error);
  /* (optional) Between buffers of one device. */
  minfer_status (*buffer_copy)(minfer_queue* queue, minfer_buffer* to, uint64_t to_offset,
                               minfer_buffer* from, uint64_t from_offset, uint64_t bytes,
                               minfer_error* error);
  /* (optional) Host memory that copies asynchronously (pinned). NULL: plain memory will do. */
  minfer_status (*host_alloc)(minfer_device* device, uint64_t bytes, void** out,
                              minfer_error* error);
  void (*host_free)(minfer_device* device, void* memory);

  /* Queues and events. queue_wait blocks until everything queued is complete. */
  minfer_status (*queue_create)(minfer_device* device, minfer_queue** out, minfer_error* error);
  void (*queue_destroy)(minfer_queue* queue);
  minfer_status (*queue_wait)(minfer_queue* queue, minfer_error* error);
  minfer_status (*event_create)(minfer_device* device, minfer_event** out, minfer_error* error);
  void (*event_destroy)(minfer_event* event);
  minfer_status (*event_record)(minfer_event* event, minfer_queue* queue, minfer_error* error);
  minfer_status (*event_wait)(minfer_event* event, minfer_error* error);
  minfer_status (*event_query)(minfer_event* event, minfer_error* error); /* OK or NOT_READY */
  /* (optional) Makes later work on the queue wait for an event of the same plugin. */
  minfer_status (*queue_wait_event)(minfer_queue* queue, minfer_event* event, minfer_error* error);

  /* Plans. compile: no addresses, no weight bytes; every choice of kernel is made here. The split is
   * copied as far as needed. bind: may be called again with a new generation; weights must have been
   * imported. run: enqueues or completes; allocates nothing. */
  minfer_status (*plan_compile)(minfer_device* device, const minfer_split* split,
                                const minfer_gate_values* gates, minfer_plan** out,
                                minfer_plan_info* info, minfer_error* error);
  minfer_status (*plan_bind)(minfer_plan* plan, const minfer_bindings* bindings,
                             minfer_error* error);
  minfer_status (*plan_run)(minfer_plan* plan, minfer_queue* queue, const minfer_run_args* args,
                            minfer_error* error);
  minfer_status (*plan_describe)(minfer_plan* plan, uint32_t node, minfer_node_report* out,
                                 minfer_error* error);
  /* (optional) Times of the last run with MINFER_RUN_TIMED; waits for the queue it ran on. Each node
   * of the split has one entry. Work shared by several nodes is accounted to one of them; a node
   * whose work another does (fused_into) has 0 seconds. */
  minfer_status (*plan_profile)(minfer_plan* plan, minfer_node_time* out, uint32_t capacity,
                                uint32_t* n, minfer_error* error);
  void (*plan_destroy)(minfer_plan* plan);

  /* (optional) Ends queued work early where possible. Waits, and runs that had to stop, return
   * MINFER_CANCELLED until queue_wait has done so; then the queue is as new. Any thread. */
  minfer_status (*queue_cancel)(minfer_queue* queue, minfer_error* error);
  /* (optional) Named extension table of the plugin, or NULL. */
  const void* (*get_interface)(const char* name, uint32_t version);
} minfer_plugin;

/* The one exported function: pure, repeatable, starts no driver. `*out` receives a table that lives as
 * long as the process. MINFER_VERSION when the host is too old, with both versions in the text. */
typedef minfer_status (*minfer_plugin_query_fn)(const minfer_host* host, const minfer_plugin** out,
                                                minfer_error* error);

/* True when `field` lies within the struct's stated size. */
#define MINFER_HAS(ptr, type, field) \
  ((ptr)->struct_size >= (uint32_t)((uintptr_t)&((type*)0)->field + sizeof(((type*)0)->field)))

/* True when the plugin offers function `slot`. */
#define MINFER_HAS_FN(table, slot) \
  (MINFER_HAS(table, minfer_plugin, slot) && (table)->slot != 0)

#ifdef __cplusplus
}
#endif

#endif /* MINFER_PLUGIN_ABI_H */
