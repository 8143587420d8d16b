// The table of gates (see gates.h).
#include "gates.h"

#include "abi_read.h"

namespace minfer_cuda {
namespace {

constexpr minfer_gate make(const char* name, uint32_t type, uint32_t scope, uint32_t numerics,
                           int64_t fallback, int64_t low, int64_t high, const char* help) {
  return {sizeof(minfer_gate), type, scope, numerics, name, help, fallback, low, high, nullptr};
}
constexpr minfer_gate flag(const char* name, uint32_t scope, uint32_t numerics, int64_t fallback,
                           const char* help) {
  return make(name, MINFER_GATE_BOOL, scope, numerics, fallback, 0, 1, help);
}
constexpr uint32_t kLoad = MINFER_SCOPE_LOAD, kPlan = MINFER_SCOPE_PLAN;

constexpr minfer_gate kTable[] = {
    flag("MINFER_DISABLE_CUDA", kLoad, 0, 0, "refuse to open CUDA devices"),
    flag("MINFER_MMQ", kPlan, 1, 1, "int8 tensor-core matmul for 9 and more tokens"),
    flag("MINFER_NO_PREFILL_GEMM", kPlan, 1, 0, "no tensor-core matmul at all"),
    flag("MINFER_NO_KQ_MMVQ", kPlan, 1, 0, "f32-activation kernels for 1 to 8 tokens"),
    flag("MINFER_SMALL_M_GEMM", kPlan, 1, 0, "tensor-core matmul for 2 to 8 tokens too"),
    make("MINFER_MMQ_MIN_TOKENS", MINFER_GATE_INT, kPlan, 1, 9, 2, 1 << 20,
         "fewest tokens for tensor-core matmul"),
    make("MINFER_CUDA_GEMM_MIN_TOKENS", MINFER_GATE_INT, kPlan, 1, 129, 2, 1 << 20,
         "fewest tokens for the f16 tensor-core matmul instead of int8"),
    make("MINFER_MMQ_KSPLIT", MINFER_GATE_INT, kPlan, 1, 0, 0, 16,
         "cuts along k of the int8 matmul; 0: automatic"),
    flag("MINFER_NO_DECODE_A_FUSE", kPlan, 0, 0, "quantise activations in a kernel of its own"),
    flag("MINFER_NO_FUSE_QKV", kPlan, 0, 0, "one launch for each of query, key and value"),
    flag("MINFER_NO_FUSE_FFN", kPlan, 0, 0, "one launch for each of gate, up and activation"),
    flag("MINFER_NO_FUSE_ROPE", kPlan, 0, 0, "separate norm, rotation and KV store"),
    flag("MINFER_NO_FUSE_STORE", kPlan, 0, 0,
         "one token: rotation and KV store in a launch before attention"),
    flag("MINFER_NO_FUSE_GATHER", kPlan, 0, 0, "one token: copy the row that results are made of"),
    flag("MINFER_NO_FUSE_RESIDUAL", kPlan, 0, 0, "separate residual addition"),
    flag("MINFER_NO_SPLIT_KV", kPlan, 1, 0, "decode attention without cutting the positions"),
    flag("MINFER_NO_TILED_ATTENTION", kPlan, 1, 0, "prefill attention without tensor cores"),
    flag("MINFER_NO_CUDA_GRAPH", kPlan, 0, 0, "launch every kernel, never replay a graph"),
    flag("MINFER_NO_PREFILL_CAPTURE", kPlan, 0, 0, "replay graphs for one token per sequence only"),
    flag("MINFER_CUDA_REFERENCE", kPlan, 1, 0, "only the reference kernels, no fusion"),
    flag("MINFER_NO_LAUNCH_OVERLAP", kPlan, 0, 0,
         "every kernel starts after the one before it has ended (sm_90 and later)"),
    flag("MINFER_NO_DECODE_MMA", kPlan, 1, 0, "decode attention without tensor cores"),
    flag("MINFER_NO_HOPPER", kPlan, 1, 0, "no sm_90a kernels: matmul as on other devices"),
    make("MINFER_HOPPER_DECODE_MAX_TOKENS", MINFER_GATE_INT, kPlan, 1, 8, 1, 16,
         "most tokens for the sm_90a decode matmul on int8 activations"),
    make("MINFER_HOPPER_ROW_TOKENS", MINFER_GATE_INT, kPlan, 1, 2, 1, 4,
         "most tokens for its kernel that gives a lane a row; more run on tensor cores"),
    make("MINFER_HOPPER_DECODE_WARPS", MINFER_GATE_INT, kPlan, 1, 0, 0, 16,
         "most warps of a block that cut k in it, for several tokens; 0: automatic"),
    make("MINFER_HOPPER_GEMM_MIN_TOKENS", MINFER_GATE_INT, kPlan, 1, 2, 2, 1 << 20,
         "fewest tokens for the wgmma matmul"),
    flag("MINFER_NO_HOPPER_FUSE", kPlan, 1, 0,
         "sm_90a matmul without gated units, folded norms and attention that writes its "
         "activations"),
    flag("MINFER_NO_HOPPER_OVERLAP", kPlan, 0, 0,
         "sm_90a matmul does not request weights before the kernel before it ends"),
    flag("MINFER_NO_HOPPER_ATTENTION", kPlan, 1, 0, "prefill attention without wgmma"),
};
static_assert(sizeof(kTable) / sizeof(kTable[0]) == static_cast<uint32_t>(Gate::kCount));

}  // namespace

const minfer_gate* gate_table() {
  return kTable;
}

Gates::Gates(const minfer_gate_values* values) {
  const minfer_gate_values given = read_struct(values);
  for (uint32_t i = 0; i < static_cast<uint32_t>(Gate::kCount); ++i) {
    values_[i] = given.values && i < given.n ? given.values[i] : kTable[i].default_value;
  }
}

}  // namespace minfer_cuda
