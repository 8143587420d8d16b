// Imported weights of a device: packed for the kernels that will read them, shared by tensor id.
//
// A weight is held in up to two forms. `packed` is the layout of its matmul kernel and serves
// matmuls and gathers alike; `plain` is f32 and serves elementwise reads. Imports and plans own
// forms jointly, so that a form lives until the last of both has gone. WeightStore is thread-safe;
// forms are immutable once imported.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "matmul.h"
#include "memory.h"
#include "minfer/plugin_abi.h"

namespace minfer_cpu {

class ThreadPool;

/// One weight in one form.
struct WeightForm {
  const MatmulKernel* kernel = nullptr;  ///< of the packed form; NULL: plain f32
  const uint8_t* data = nullptr;
  uint64_t matrix_bytes = 0;  ///< of one matrix, where there are several (experts)
  uint32_t type = 0;
  int64_t ne[4] = {};
  std::shared_ptr<const Allocation> memory;  ///< of the whole unit
};

using FormRef = std::shared_ptr<const WeightForm>;

class WeightStore {
 public:
  /// Bytes that importing the unit would add now: forms that live imports hold count nothing.
  uint64_t import_bytes(const minfer_weight_unit* unit, Isa isa) const;

  /// Imports a unit: checks it, makes one allocation, packs on the pool, releases each weight.
  /// Throws before any release, or succeeds. The forms returned are what the import owns.
  std::vector<FormRef> import(const minfer_weight_unit* unit, Isa isa, MemoryCounter& memory,
                              ThreadPool& pool);

  /// The form of a live weight, or NULL.
  FormRef find_packed(uint64_t model, uint64_t id) const;
  FormRef find_plain(uint64_t model, uint64_t id) const;

 private:
  struct Key {
    uint64_t model, id;
    bool plain;
    auto operator<=>(const Key&) const = default;
  };
  struct Job;
  std::vector<Job> plan_import(const minfer_weight_unit* unit, Isa isa, uint64_t* bytes,
                               std::vector<FormRef>* shared) const;
  FormRef find(const Key& key) const;

  mutable std::mutex mutex_;
  std::map<Key, std::weak_ptr<const WeightForm>> forms_;
};

}  // namespace minfer_cpu

/// What weights_import hands out.
struct minfer_weights {
  std::vector<minfer_cpu::FormRef> forms;
};
