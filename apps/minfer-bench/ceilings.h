// What a device reaches at best, measured through the plugin ABI: copying memory and one large
// matrix product, with whatever the plugin runs for them.
//
// So it works on any backend, and shares of it compare like with like: the same clock, the same
// driver, the same minute. Needs room for a few large buffers; used by one thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "minfer/gguf.h"
#include "minfer/plugin_host.h"

namespace minfer::bench {

struct Ceilings {
  double copy_bytes_per_second = 0;  ///< read and written; 0: not measured
  std::string copy_how;              ///< what copied, or why nothing was measured
  double flops_per_second = 0;       ///< 0: not measured
  std::string product_how;           ///< kernel and shape, or why nothing was measured
};

/// Measures each (device, matrix type) once.
class CeilingCache {
 public:
  /// `type`: MINFER_TYPE_* of the matrix, whose blocks are taken from `file`.
  const Ceilings& of(PluginHost& host, const std::string& device, uint32_t type,
                     const GgufFile& file);

 private:
  std::map<std::pair<std::string, uint32_t>, Ceilings> known_;
};

}  // namespace minfer::bench
