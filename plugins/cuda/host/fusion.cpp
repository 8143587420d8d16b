// Finding fusions in a graph (see fusion.h).
#include "fusion.h"

#include <algorithm>
#include <cstring>

#include "../kernels/matmul.h"

namespace minfer_cuda {

bool is_rows(const Tensor& t) {
  return t.type == MINFER_TYPE_F32 && t.ne[2] == 1 && t.ne[3] == 1 &&
         (t.nb[0] == 4 || t.ne[0] == 1) && t.nb[1] % 4 == 0;
}

namespace {

bool same_dims(const Tensor& a, const Tensor& b) {
  return std::equal(a.ne, a.ne + 4, b.ne);
}

}  // namespace

Fusion::Fusion(const Graph& graph, const Caps& caps, const Gates& gates) : graph_(graph) {
  const size_t n = graph.nodes.size();
  choices_.resize(n);
  absorbed_.assign(n, kNone);
  residuals_.resize(n);
  gates_of_.assign(n, kNone);
  chains_.resize(n);
  groups_.resize(n);
  gated_units_.assign(n, kNone);
  gated_pairs_.assign(n, {kNone, kNone});
  norms_after_.assign(n, kNone);
  index_readers();
  choose_kernels(caps, gates);
  const bool reference = gates.on(Gate::kReference);
  if (!reference && !gates.on(Gate::kNoFuseFfn)) fuse_gates();
  if (!reference && !gates.on(Gate::kNoFuseRope)) fuse_stores();
  if (!reference) fuse_groups(gates);
  if (!reference && !gates.on(Gate::kNoFuseResidual)) fuse_residuals();
  if (!reference && !gates.on(Gate::kNoHopperFuse)) {
    if (!gates.on(Gate::kNoFuseFfn)) fuse_gated_units();
    if (!gates.on(Gate::kNoDecodeActFuse)) fold_norms();
  }
}

void Fusion::index_readers() {
  const size_t n = graph_.tensors.size();
  readers_.resize(n);
  producer_.assign(n, kNone);
  observed_.assign(n, false);
  for (uint32_t t = 0; t < n; ++t) {
    if (graph_.tensors[t].flags & (MINFER_FLAG_ESCAPES | MINFER_FLAG_KEEP)) {
      observed_[graph_.base(t)] = true;
    }
  }
  for (uint32_t i = 0; i < graph_.nodes.size(); ++i) {
    for (uint32_t s : graph_.nodes[i].src) {
      if (s != kNone) readers_[graph_.base(s)].push_back(i);
    }
    if (graph_.nodes[i].dst != kNone) producer_[graph_.base(graph_.nodes[i].dst)] = i;
  }
}

void Fusion::choose_kernels(const Caps& caps, const Gates& gates) {
  for (uint32_t i = 0; i < graph_.nodes.size(); ++i) {
    const Node& node = graph_.nodes[i];
    if (node.op != MINFER_OP_MATMUL) continue;
    const Tensor &w = graph_.tensors[node.src[0]], &x = graph_.tensors[node.src[1]];
    const Tensor& y = graph_.tensors[node.dst];
    const bool aligned = (x.nb[1] | x.view_offset | y.nb[1] | y.view_offset) % 16 == 0;
    choices_[i] = choose_matmul(caps, gates, {w.type, w.ne[0], w.ne[1], x.ne[1], aligned});
  }
}

bool Fusion::only_reader(uint32_t tensor, uint32_t node) const {
  const uint32_t base = graph_.base(tensor);
  if (observed_[base]) return false;
  return std::all_of(readers_[base].begin(), readers_[base].end(),
                     [&](uint32_t reader) { return reader == node; });
}

bool Fusion::ready_before(uint32_t tensor, uint32_t node) const {
  if (tensor == kNone) return true;
  const uint32_t by = producer(tensor);
  return by == kNone || by < node;
}

void Fusion::fuse_gates() {
  for (uint32_t i = 0; i < graph_.nodes.size(); ++i) {
    const Node& mul = graph_.nodes[i];
    if (mul.op != MINFER_OP_MUL || !is_rows(graph_.tensors[mul.dst])) continue;
    for (size_t side = 0; side < 2; ++side) {
      const uint32_t gated = mul.src[side], other = mul.src[1 - side];
      const uint32_t by = producer(gated);
      if (by == kNone || absorbed_[by] != kNone) continue;
      const Node& fn = graph_.nodes[by];
      if (fn.op != MINFER_OP_SILU && fn.op != MINFER_OP_GELU) continue;
      if (!only_reader(gated, i) || fn.dst != gated || gated == other) continue;
      if (!is_rows(graph_.tensors[fn.src[0]]) || !is_rows(graph_.tensors[other])) continue;
      if (!same_dims(graph_.tensors[other], graph_.tensors[mul.dst])) continue;
      absorbed_[by] = i;
      gates_of_[i] = by;
      break;
    }
  }
}

HeadChain Fusion::chain_to(uint32_t tensor, uint32_t reader) const {
  HeadChain chain;
  chain.output = chain.input = tensor;
  const uint32_t rope = producer(tensor);
  if (rope == kNone || absorbed_[rope] != kNone) return chain;
  if (graph_.nodes[rope].op != MINFER_OP_ROPE) return chain;
  if (reader != kNone && !only_reader(tensor, reader)) return chain;
  chain.rope = rope;
  chain.input = graph_.nodes[rope].src[0];
  const uint32_t norm = producer(chain.input);
  if (norm == kNone || absorbed_[norm] != kNone) return chain;
  const Node& node = graph_.nodes[norm];
  if (node.op != MINFER_OP_RMS_NORM || !only_reader(chain.input, rope)) return chain;
  if (node.dst != chain.input || graph_.tensors[node.src[0]].ne[3] != 1) return chain;
  chain.norm = norm;
  chain.input = node.src[0];
  return chain;
}

void Fusion::absorb(const HeadChain& chain, uint32_t anchor) {
  if (chain.rope != kNone) absorbed_[chain.rope] = anchor;
  if (chain.norm != kNone) absorbed_[chain.norm] = anchor;
}

void Fusion::fuse_stores() {
  for (uint32_t i = 0; i < graph_.nodes.size(); ++i) {
    const Node& store = graph_.nodes[i];
    if (store.op != MINFER_OP_KV_STORE) continue;
    StoreChains& chains = chains_[i];
    chains.key = chain_to(store.src[0], i);
    chains.value.input = chains.value.output = store.src[1];
    if (chains.key.rope == kNone) continue;
    absorb(chains.key, i);
    const Node& key_rope = graph_.nodes[chains.key.rope];
    for (uint32_t a = i + 1; a < graph_.nodes.size(); ++a) {
      const Node& attention = graph_.nodes[a];
      if (attention.op != MINFER_OP_ATTENTION) continue;
      if (attention.params.attention.kv != store.params.kv.kv) continue;
      const HeadChain query = chain_to(attention.src[0], kNone);
      if (query.rope == kNone || !ready_before(query.input, i)) break;
      const Node& rope = graph_.nodes[query.rope];
      // One rotation per launch: same positions, factors and parameters.
      if (rope.source(1) != key_rope.source(1) || rope.source(2) != key_rope.source(2)) break;
      if (std::memcmp(&rope.params.rope, &key_rope.params.rope, sizeof rope.params.rope)) break;
      const auto& readers = readers_[graph_.base(attention.src[0])];
      if (std::any_of(readers.begin(), readers.end(), [&](uint32_t r) { return r <= i; })) break;
      chains.query = query;
      if (only_reader(attention.src[0], a)) chains.attention = a;
      absorb(query, i);
      break;
    }
  }
}

std::vector<uint32_t> Fusion::group(uint32_t n) const {
  return groups_[n].empty() ? std::vector<uint32_t>{n} : groups_[n];
}

void Fusion::fuse_groups(const Gates& gates) {
  for (uint32_t i = 0; i < graph_.nodes.size(); ++i) {
    const Node& first = graph_.nodes[i];
    if (first.op != MINFER_OP_MATMUL || absorbed_[i] != kNone) continue;
    std::vector<uint32_t> members{i};
    for (uint32_t r : readers_[graph_.base(first.src[1])]) {
      const Node& node = graph_.nodes[r];
      if (r <= i || node.op != MINFER_OP_MATMUL || node.src[1] != first.src[1]) continue;
      if (absorbed_[r] != kNone || choices_[r].kernel != choices_[i].kernel) continue;
      if (members.size() < kMaxSegments) members.push_back(r);
    }
    const Gate gate = members.size() > 2 ? Gate::kNoFuseQkv : Gate::kNoFuseFfn;
    if (members.size() < 2 || gates.on(gate)) continue;
    for (size_t m = 1; m < members.size(); ++m) absorbed_[members[m]] = i;
    groups_[i] = std::move(members);
  }
}

void Fusion::fuse_residuals() {
  for (uint32_t i = 0; i < graph_.nodes.size(); ++i) {
    const Node& add = graph_.nodes[i];
    if (add.op != MINFER_OP_ADD || !is_rows(graph_.tensors[add.dst])) continue;
    for (size_t side = 0; side < 2; ++side) {
      const uint32_t product = add.src[side], other = add.src[1 - side];
      const uint32_t by = producer(product);
      if (by == kNone || graph_.nodes[by].op != MINFER_OP_MATMUL) continue;
      if (graph_.nodes[by].dst != product || !only_reader(product, i) || product == other) continue;
      if (absorbed_[by] != kNone || !groups_[by].empty() || residuals_[by].add != kNone) continue;
      const Tensor& o = graph_.tensors[other];
      if (!is_rows(o) || !same_dims(o, graph_.tensors[add.dst])) continue;
      if (!ready_before(other, by)) continue;
      absorbed_[i] = by;
      residuals_[by] = {i, other};
      break;
    }
  }
}

bool Fusion::wants_int8(uint32_t tensor) const {
  const auto& readers = readers_[graph_.base(tensor)];
  return std::any_of(readers.begin(), readers.end(), [&](uint32_t r) {
    const Node& node = graph_.nodes[r];
    return node.op == MINFER_OP_MATMUL && node.src[1] == tensor && takes_int8(choices_[r].kernel);
  });
}

bool Fusion::wants_f32(uint32_t tensor) const {
  const uint32_t base = graph_.base(tensor);
  if (observed_[base]) return true;
  return !std::all_of(readers_[base].begin(), readers_[base].end(), [&](uint32_t r) {
    const Node& node = graph_.nodes[r];
    return node.op == MINFER_OP_MATMUL && node.src[1] == tensor && takes_int8(choices_[r].kernel) &&
           node.src[0] != tensor;
  });
}

}  // namespace minfer_cuda
