// The KV slots of the plugin's table: page sizes, copies, canonical export and import.
#pragma once

#include "minfer/plugin_abi.h"

namespace minfer_cuda {

void fill_kv_table(minfer_plugin& table);

}  // namespace minfer_cuda
