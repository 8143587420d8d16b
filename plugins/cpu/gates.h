// The CPU plugin's gates: their table, and a snapshot's values by name. Thread-safe.
#pragma once

#include "matmul.h"
#include "minfer/plugin_abi.h"

namespace minfer_cpu {

/// The table, in the order of the values that the core hands over.
const minfer_gate* gate_table(uint32_t* n);

struct Gates {
  Isa isa = Isa::kScalar;  ///< the level to use
  unsigned threads = 1;    ///< of the pool
  bool fuse = true;        ///< operators share sections and passes over memory

  /// Reads a snapshot (NULL: all defaults). Throws Failure(MINFER_INVALID) for a value out of its
  /// range and Failure(MINFER_UNSUPPORTED) for a level this processor lacks.
  static Gates read(const minfer_gate_values* values);
};

}  // namespace minfer_cpu
