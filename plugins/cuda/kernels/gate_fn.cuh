// The gating functions of feed-forward blocks (docs/operators.md, SILU and GELU).
#pragma once

#include "activation.h"

namespace minfer_cuda {

__device__ __forceinline__ float gate_value(GateFn fn, float x) {
  switch (fn) {
    case GateFn::kSilu:
      return x / (1.f + expf(-x));
    case GateFn::kGeluTanh:
      return 0.5f * x * (1.f + tanhf(0.7978845608028654f * (x + 0.044715f * x * x * x)));
    case GateFn::kGeluErf:
      return 0.5f * x * (1.f + erff(x * 0.7071067811865476f));
    case GateFn::kGeluQuick:
      return x / (1.f + expf(-1.702f * x));
  }
  return 0.f;
}

}  // namespace minfer_cuda
