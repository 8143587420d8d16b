// Rotation angles of RoPE as fractions of a turn (docs/operators.md, ROPE).
#pragma once

#include <cstdint>
#include <vector>

#include "minfer/plugin_abi.h"

namespace minfer_cuda {

/// Angle of each of n_rot / 2 pairs at position 1 in 64-bit fixed point, scaling and YaRN included,
/// frequency factors not (they are weights).
std::vector<uint64_t> rope_turns(const minfer_rope_params& params);

/// What sin and cos are multiplied by.
float rope_amplitude(const minfer_rope_params& params);

}  // namespace minfer_cuda
