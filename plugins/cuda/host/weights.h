// Weights on a device: who owns them, and what their bytes look like there.
//
// A weight is known by (model, tensor id). Each import owns one allocation that holds the weights
// it brought; a weight that another live import of the model already holds is shared. Plans keep a
// reference to the allocation of every weight they read, so a captured graph can never outlive its
// weights, whatever the order in which imports are freed. Thread-safe.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "device.h"

namespace minfer_cuda {

struct WeightEntry {
  std::shared_ptr<const DeviceMemory> memory;
  char* data = nullptr;
  uint32_t type = 0;
  bool tiled = false;  ///< tile32; else the file's bytes
  int64_t ne[4] = {1, 1, 1, 1};
};

using WeightKey = std::pair<uint64_t, uint64_t>;

class WeightRegistry {
 public:
  std::shared_ptr<const WeightEntry> find(uint64_t model, uint64_t id) const;

 private:
  friend struct ImportAccess;
  mutable std::mutex mutex_;
  std::map<WeightKey, std::weak_ptr<const WeightEntry>> entries_;
};

/// Fills the weight slots of the plugin's table.
void fill_weight_table(minfer_plugin& table);

}  // namespace minfer_cuda

struct minfer_weights {
  std::vector<std::shared_ptr<const minfer_cuda::WeightEntry>> entries;
};
