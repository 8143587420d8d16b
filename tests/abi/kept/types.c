/* Every type of the plugin ABI, within reach of one exported symbol, for libabigail (see make.sh). */
#include "minfer/plugin_abi.h"

struct abi_types {
  minfer_plugin_query_fn query;
  minfer_scale_params* scale;
  minfer_norm_params* norm;
  minfer_rope_params* rope;
  minfer_kv_params* kv_store;
  minfer_attention_params* attention;
  minfer_gelu_params* gelu;
  minfer_soft_cap_params* soft_cap;
  minfer_softmax_params* softmax;
  minfer_concat_params* concat;
  minfer_top_k_params* top_k;
  minfer_tensor* tensor;
  minfer_node* node;
  minfer_kv_desc* kv;
  minfer_capacity* capacity;
  minfer_split* split;
  minfer_gate* gate;
  minfer_gate_values* gate_values;
  minfer_device_info* device_info;
  minfer_memory* memory;
  minfer_weight* weight;
  minfer_weight_unit* weight_unit;
  minfer_verdict* verdict;
  minfer_plan_info* plan_info;
  minfer_binding* binding;
  minfer_bindings* bindings;
  minfer_run_args* run_args;
  minfer_node_report* node_report;
  minfer_node_time* node_time;
  minfer_host* host;
  minfer_op_support* op_support;
  minfer_plugin* plugin;
};

__attribute__((visibility("default"))) struct abi_types minfer_abi_types;
