// Fusions that the Hopper matmuls allow (see fusion.h): gated units in the launch of their two
// matrices, and RMS norms folded into the matmul before them.
#include "../hopper/prefill.h"
#include "fusion.h"

namespace minfer_cuda {

bool Fusion::only_matmul_readers(uint32_t tensor, MatmulKernel kernel) const {
  const uint32_t base = graph_.base(tensor);
  if (observed_[base] || readers_[base].empty()) return false;
  for (uint32_t r : readers_[base]) {
    const Node& node = graph_.nodes[r];
    if (node.op != MINFER_OP_MATMUL || node.src[1] != tensor || node.src[0] == tensor) return false;
    if (choices_[r].kernel != kernel) return false;
  }
  return true;
}

bool Fusion::only_fragments(uint32_t tensor) const {
  return only_matmul_readers(tensor, MatmulKernel::kHopperGemm);
}

void Fusion::fuse_gated_units() {
  for (uint32_t i = 0; i < graph_.nodes.size(); ++i) {
    const uint32_t fn = gates_of_[i];
    if (fn == kNone || absorbed_[i] != kNone) continue;
    const Node& mul = graph_.nodes[i];
    const uint32_t gate = graph_.nodes[fn].src[0];
    const uint32_t up = mul.src[mul.src[0] == graph_.nodes[fn].dst ? 1 : 0];
    const uint32_t g = producer(gate), u = producer(up);
    if (g == kNone || u == kNone || g == u) continue;
    const Node &gate_node = graph_.nodes[g], &up_node = graph_.nodes[u];
    if (gate_node.op != MINFER_OP_MATMUL || up_node.op != MINFER_OP_MATMUL) continue;
    if (gate_node.dst != gate || up_node.dst != up) continue;
    const uint32_t anchor = g < u ? g : u;
    if (groups_[anchor] != std::vector<uint32_t>{anchor, g < u ? u : g}) continue;
    const Tensor &wg = graph_.tensors[gate_node.src[0]], &wu = graph_.tensors[up_node.src[0]];
    if (wg.type != wu.type || wg.ne[1] != wu.ne[1] || wg.ne[1] % 32 != 0) continue;
    if (!only_reader(gate, fn) || !only_reader(up, i)) continue;
    const MatmulKernel kernel = choices_[anchor].kernel;
    const bool decode = kernel == MatmulKernel::kHopperDecode;
    if (!decode && kernel != MatmulKernel::kHopperGemm) continue;
    // The wide launch writes f16 rows alone.
    if (!decode && !only_fragments(mul.dst)) continue;
    absorbed_[i] = anchor;
    gated_units_[anchor] = i;
    gated_pairs_[i] = {g, u};
  }
}

void Fusion::fold_norms() {
  for (uint32_t i = 0; i < graph_.nodes.size(); ++i) {
    const Node& norm = graph_.nodes[i];
    if (norm.op != MINFER_OP_RMS_NORM || absorbed_[i] != kNone) continue;
    const Tensor &x = graph_.tensors[norm.src[0]], &y = graph_.tensors[norm.dst];
    if (!is_rows(x) || !is_rows(y) || x.ne[0] % 32 != 0) continue;
    const uint32_t writer = producer(norm.src[0]);
    if (writer == kNone || writer > i || graph_.nodes[writer].dst != norm.src[0]) continue;
    const bool is_add = graph_.nodes[writer].op == MINFER_OP_ADD;
    const uint32_t matmul = is_add ? absorbed_[writer] : writer;
    if (matmul == kNone || graph_.nodes[matmul].op != MINFER_OP_MATMUL) continue;
    if (is_add && residuals_[matmul].add != writer) continue;
    const MatmulKernel kernel = choices_[matmul].kernel;
    const bool wide = kernel == MatmulKernel::kHopperGemm;
    if (!wide && kernel != MatmulKernel::kHopperDecode) continue;
    if (wide && (x.ne[1] > hopper::kMaxPublishedTokens || x.ne[0] % 64 != 0)) continue;
    if (!only_matmul_readers(norm.dst, kernel)) continue;
    if (absorbed_[matmul] != kNone || !groups_[matmul].empty()) continue;
    if (norms_after_[matmul] != kNone) continue;
    absorbed_[i] = matmul;
    norms_after_[matmul] = i;
  }
}

}  // namespace minfer_cuda
