// Emission of rotation, KV store and attention steps (see plan_builder.h).
#include <algorithm>
#include <cstring>

#include "../hopper/attention.h"
#include "../kernels/attention.h"
#include "../kernels/kv.h"
#include "dispatch.h"
#include "ops.h"
#include "plan_builder.h"
#include "rope_table.h"

namespace minfer_cuda {
namespace {

/// A chain of norm and rotation on one operand, in tensor numbers, ready to become HeadRows.
struct HeadPlan {
  HeadShape in, out;
  uint32_t x = kNone, norm_weight = kNone, result = kNone;
  minfer_norm_params norm{};
  bool has_norm = false, rotate = false;
  int store = 0;
};

HeadRows bind_rows(const Bound& b, const HeadPlan& p) {
  HeadRows r;
  r.x = b.tensor[p.x];
  r.nb_head = p.in.nb_head;
  r.nb_token = p.in.nb_token;
  r.heads = static_cast<int32_t>(p.in.heads);
  r.dim = static_cast<int32_t>(p.in.dim);
  r.norm = b.at(p.norm_weight);
  r.norm_eps = p.norm.eps;
  r.norm_offset = p.norm.weight_offset;
  r.has_norm = p.has_norm;
  r.rotate = p.rotate;
  if (p.result != kNone) {
    r.out = b.tensor[p.result];
    r.out_nb_head = p.out.nb_head;
    r.out_nb_token = p.out.nb_token;
  }
  r.store = p.store;
  return r;
}

struct RopePlan {
  bool present = false;
  uint64_t turns = 0;
  uint32_t factors = kNone;
  minfer_rope_params params{};
};

Rope bind_rope(const Bound& b, const RopePlan& p) {
  Rope rope;
  if (!p.present) return rope;
  rope.turns = reinterpret_cast<const uint64_t*>(b.constants + p.turns);
  rope.factors = b.at(p.factors);
  rope.n_rot = static_cast<int32_t>(p.params.n_rot);
  rope.interleaved = p.params.mode == MINFER_ROPE_INTERLEAVED;
  rope.amplitude = rope_amplitude(p.params);
  return rope;
}

HeadShape heads_of(const Tensor& t, int64_t dim, int64_t heads) {
  HeadShape s;
  if (!head_shape(t, dim, heads, s)) {
    throw PluginError(MINFER_INVALID, text(t.name, ": expected ", heads, " heads of ", dim));
  }
  return s;
}

}  // namespace

uint64_t PlanBuilder::turns_at(const minfer_rope_params& params) {
  const std::vector<uint64_t> turns = rope_turns(params);
  const size_t bytes = turns.size() * sizeof(uint64_t);
  std::vector<uint8_t>& pool = program_.constants;
  for (size_t at = 0; at + bytes <= pool.size(); at += sizeof(uint64_t)) {
    if (std::memcmp(pool.data() + at, turns.data(), bytes) == 0) return at;
  }
  const size_t at = pool.size();
  pool.resize(at + bytes);
  std::memcpy(pool.data() + at, turns.data(), bytes);
  return at;
}

void PlanBuilder::emit_rope(uint32_t n) {
  const uint32_t x = node(n).src[0], pos = node(n).src[1], out = node(n).dst;
  RopePlan rope{true, turns_at(node(n).params.rope), node(n).source(2), node(n).params.rope};
  HeadPlan plan;
  plan.x = x;
  plan.result = out;
  plan.in = heads_of(tensor(x), tensor(x).ne[0], tensor(x).ne[1]);
  plan.out = heads_of(tensor(out), tensor(out).ne[0], tensor(out).ne[1]);
  plan.rotate = true;
  add_step(n, {x, out}, {}, 1, [=](const Bound& b, cudaStream_t stream) {
    HeadsCall call;
    call.rows[call.n_rows++] = bind_rows(b, plan);
    call.rope = bind_rope(b, rope);
    call.pos = b.at<const int32_t>(pos);
    call.tokens = static_cast<int32_t>(plan.in.tokens);
    call.valid = b.valid(out);
    return launch_heads(call, b.overlap, stream);
  });
  label(n, "rope");
}

/// What a KV_STORE node and the chains before it come to: key, value and, where it is fused, query.
struct PlanBuilder::StorePlan {
  std::vector<HeadPlan> heads;
  RopePlan rope;
  uint32_t pos = kNone;
};

PlanBuilder::StorePlan PlanBuilder::plan_store(uint32_t n) {
  const StoreChains chains = fusion_.chains(n);
  const KvPages& pages = program_.graph.kv[node(n).params.kv.kv];
  StorePlan out;
  const auto add_chain = [&](const HeadChain& chain, int64_t dim, int64_t heads, int store) {
    HeadPlan plan;
    plan.x = chain.input;
    plan.in = heads_of(tensor(chain.input), dim, heads);
    plan.store = store;
    if (chain.norm != kNone) {
      plan.has_norm = true;
      plan.norm = node(chain.norm).params.norm;
      plan.norm_weight = node(chain.norm).source(1);
    }
    if (chain.rope != kNone) {
      plan.rotate = true;
      out.pos = node(chain.rope).src[1];
      out.rope = {true, turns_at(node(chain.rope).params.rope), node(chain.rope).source(2),
                  node(chain.rope).params.rope};
    }
    if (store == 0) {
      plan.result = chain.output;
      plan.out = heads_of(tensor(chain.output), dim, heads);
    }
    out.heads.push_back(plan);
  };
  HeadChain key = chains.key;
  if (key.input == kNone) key.input = key.output = node(n).src[0];
  HeadChain value;
  value.input = value.output = node(n).src[1];
  add_chain(key, pages.dim_k, pages.n_head, 1);
  add_chain(value, pages.dim_v, pages.n_head, 2);
  if (chains.query.rope != kNone) {
    const Node& rope_node = node(chains.query.rope);
    add_chain(chains.query, tensor(rope_node.dst).ne[0], tensor(rope_node.dst).ne[1], 0);
  }
  return out;
}

bool PlanBuilder::stores_in_attention(uint32_t store) const {
  const StoreChains chains = fusion_.chains(store);
  if (chains.attention == kNone || gates_.on(Gate::kNoFuseStore)) return false;
  const uint32_t query = chains.query.output;
  AttentionCall shape;
  shape.kv = program_.graph.kv[node(store).params.kv.kv];
  // The rotated query is written nowhere, and one token is all that the step adds.
  return tensor(query).ne[2] == 1 && !fusion_.observed(query) && runs_decode_mma(shape);
}

bool PlanBuilder::runs_decode_mma(const AttentionCall& shape) const {
  return !gates_.on(Gate::kReference) && !gates_.on(Gate::kNoDecodeMma) && caps_.cc >= 80 &&
         attention_decode_supports(shape);
}

void PlanBuilder::emit_store(uint32_t n) {
  const StoreChains chains = fusion_.chains(n);
  if (stores_in_attention(n)) {
    stores_[chains.attention] = n;
    return;
  }
  const StorePlan plan = plan_store(n);
  const uint32_t kv = node(n).params.kv.kv, slot = node(n).src[2];
  const bool has_query = plan.heads.size() > 2;
  const uint32_t query_in = has_query ? plan.heads[2].x : kNone;
  const uint32_t query_out = has_query ? plan.heads[2].result : kNone;
  const uint32_t valid_from = node(n).src[0];
  add_step(n, {plan.heads[0].x, plan.heads[1].x, query_in, query_out}, {}, 1,
           [=](const Bound& b, cudaStream_t stream) {
             HeadsCall call;
             for (const HeadPlan& h : plan.heads) call.rows[call.n_rows++] = bind_rows(b, h);
             call.rope = bind_rope(b, plan.rope);
             call.kv = b.kv[kv];
             call.pos = b.at<const int32_t>(plan.pos);
             call.slot = b.at<const int64_t>(slot);
             call.tokens = static_cast<int32_t>(plan.heads[0].in.tokens);
             call.valid = b.valid(valid_from);
             return launch_heads(call, b.overlap, stream);
           });
  const char* kernel = has_query                  ? "qkv_rope_store"
                       : chains.key.rope != kNone ? "rope_store"
                                                  : "kv_store";
  label(n, kernel);
  for (const HeadChain& chain : {chains.key, chains.query}) {
    if (chain.rope == kNone) continue;
    fused(chain.rope, n, kernel);
    fused(chain.norm, n, kernel);
  }
}

void PlanBuilder::emit_attention(uint32_t n) {
  const Node& at = node(n);
  const minfer_attention_params p = at.params.attention;
  const uint32_t q = at.src[0], pos = at.src[1], q_start = at.src[2], kv_len = at.src[3];
  const uint32_t table = at.src[4], sinks = at.source(5), out = at.dst;
  AttentionCall shape;
  shape.kv = program_.graph.kv[p.kv];
  const HeadShape in = heads_of(tensor(q), shape.kv.dim_k, p.n_head);
  const HeadShape result = heads_of(tensor(out), shape.kv.dim_v, p.n_head);
  shape.q_nb_head = in.nb_head;
  shape.q_nb_token = in.nb_token;
  shape.out_nb_head = result.nb_head;
  shape.out_nb_token = result.nb_token;
  shape.n_head = static_cast<int32_t>(p.n_head);
  shape.tokens = static_cast<int32_t>(in.tokens);
  shape.seqs = static_cast<int32_t>(tensor(kv_len).ne[0]);
  shape.max_pages = static_cast<int32_t>(tensor(table).ne[0]);
  shape.scale = p.scale;
  shape.soft_cap = p.soft_cap;
  shape.window = static_cast<int32_t>(p.window);
  shape.causal = static_cast<int32_t>(p.causal);

  // With few tokens a sequence, a tile of queries would stay mostly empty.
  const bool suits_tiles = shape.tokens >= 16 && shape.tokens > 8 * shape.seqs;
  std::string why;
  const PrefillAttention prefill =
      suits_tiles ? choose_prefill_attention(caps_, gates_, shape, why) : PrefillAttention::kNone;
  const bool tiled = prefill != PrefillAttention::kNone;
  const bool mma = !tiled && runs_decode_mma(shape);
  const int splits = tiled || gates_.on(Gate::kNoSplitKv) ? 1
                     : mma ? attention_decode_splits(shape, caps_.sms)
                           : attention_splits(shape, caps_.sms);
  uint32_t partial = kNone;
  if (prefill == PrefillAttention::kHopper) {
    partial = new_item(hopper::attention_workspace_bytes(shape, caps_.sms));
    program_.counter_bytes =
        std::max(program_.counter_bytes, hopper::attention_counter_bytes(caps_.sms));
  } else if (splits > 1) {
    partial = new_item(attention_split_workspace(shape, splits));
    // Layers run one after the other and leave the counters at zero, so all share them.
    program_.counter_bytes = std::max(program_.counter_bytes, attention_split_counters(shape));
  }

  const uint32_t int8 =
      tiled || shape.kv.dim_v % 32 || !is_rows(tensor(out)) ? kNone : produced_int8(out);
  uint32_t fragments = kNone;
  if (prefill == PrefillAttention::kHopper && !gates_.on(Gate::kNoHopperFuse) &&
      is_rows(tensor(out)) && fusion_.only_fragments(out)) {
    fragments = produced_fragments(out, 1.f);  // results are means of values in f16
  }
  const bool f32 = fragments == kNone && (int8 == kNone || fusion_.wants_f32(out));
  const int64_t row = tensor(out).ne[0];
  const int sms = caps_.sms;
  const auto stored = stores_.find(n);
  const bool fresh = stored != stores_.end();
  const StorePlan store = fresh ? plan_store(stored->second) : StorePlan();
  const uint32_t slot = fresh ? node(stored->second).src[2] : kNone;
  const auto head = [&](size_t i) { return fresh ? store.heads[i].x : kNone; };
  add_step(n, {fresh ? head(2) : q, head(0), head(1), f32 ? out : kNone},
           {partial, int8, fragments}, 1, [=](const Bound& b, cudaStream_t stream) {
             AttentionCall call = shape;
             if (!fresh) call.q = b.tensor[q];
             if (f32) call.out = b.tensor[out];
             if (int8 != kNone) call.out_int8 = int8_rows_at(b.item[int8], row, shape.tokens);
             if (fragments != kNone) {
               call.out_fragments = reinterpret_cast<uint16_t*>(b.item[fragments]);
             }
             call.kv = b.kv[p.kv];
             call.valid_tokens = b.valid(out);
             call.valid_seqs = b.valid(kv_len);
             call.pos = b.at<const int32_t>(pos);
             call.q_start = b.at<const int32_t>(q_start);
             call.kv_len = b.at<const int32_t>(kv_len);
             call.block_table = b.at<const int32_t>(table);
             call.sinks = b.at(sinks);
             char* workspace = partial == kNone ? nullptr : b.item[partial];
             auto* counters = reinterpret_cast<uint32_t*>(b.counters);
             if (prefill == PrefillAttention::kHopper) {
               return hopper::launch_attention(call, sms, reinterpret_cast<float*>(workspace),
                                               counters, b.overlap, stream);
             }
             if (tiled) return launch_attention_tiled(call, stream);
             FreshHeads heads;
             if (fresh) {
               heads = {bind_rows(b, store.heads[2]), bind_rows(b, store.heads[0]),
                        bind_rows(b, store.heads[1]), bind_rope(b, store.rope),
                        b.at<const int64_t>(slot)};
             }
             return mma ? launch_attention_decode(call, fresh ? &heads : nullptr, splits, workspace,
                                                  counters, b.overlap, stream)
                        : launch_attention_split(call, splits, workspace, counters, b.overlap,
                                                 stream);
           });
  if (prefill == PrefillAttention::kHopper) {
    const char* rest = fragments == kNone ? "" : "+f16 fragments, no f32";
    return label(n, text("hopper_attention/f16 wgmma", rest), why);
  }
  if (tiled) return label(n, "attention_tiled/f16 mma", why);
  const char* kernel = mma ? "attention_decode/f16 mma x" : "attention_split x";
  const std::string full = text(fresh ? "qkv_rope_store+" : "", kernel, splits,
                                int8 == kNone ? ""
                                : f32         ? "+int8"
                                              : "+int8, no f32");
  label(n, full, why);
  if (!fresh) return;
  fused(stored->second, n, full);
  const StoreChains chains = fusion_.chains(stored->second);
  for (const HeadChain& chain : {chains.key, chains.query}) {
    fused(chain.rope, n, full);
    fused(chain.norm, n, full);
  }
}

}  // namespace minfer_cuda
