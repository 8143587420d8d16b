// Plans as a whole: a transformer layer fused and unfused, valid counts from nothing to capacity,
// and what a plugin must do with wrong arguments: a status, a text, and untouched outputs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <thread>

#include "levels.h"

namespace ops_test {
namespace {

// A layer of a small llama with two heads of 32, and its head: most neighbours that plugins fuse.
class Layer {
 public:
  static constexpr int64_t kDim = 64, kFf = 160, kVocab = 100;
  static constexpr uint32_t kTokens = 9, kSeqs = 2, kOuts = 3;

  explicit Layer(std::mt19937_64& rng, uint32_t type = MINFER_TYPE_F32) {
    const auto matrix = [&](int64_t id, int64_t od) { return random_weight(rng, type, id, od); };
    const auto vector = [&](int64_t n) { return f32_weight(random_floats(rng, n), n); };
    embedding_ = random_weight(rng, MINFER_TYPE_F16, kDim, kVocab);
    norm1_ = vector(kDim), norm2_ = vector(kDim), norm3_ = vector(kDim);
    q_ = matrix(kDim, kDim), k_ = matrix(kDim, kDim), v_ = matrix(kDim, kDim);
    o_ = matrix(kDim, kDim), bias_ = vector(kDim);
    gate_ = matrix(kDim, kFf), up_ = matrix(kDim, kFf), down_ = matrix(kFf, kDim);
    for (Weight* w : {&q_, &k_, &v_, &o_, &gate_, &up_, &down_}) shrink(*w);
    build();
  }

  void fill(Session& session) const {
    session.set(tokens, std::vector<int32_t>{5, 99, 0, 7, 7, 12, 60, 0, 0});
    session.set(pos, std::vector<int32_t>{0, 1, 2, 3, 4, 0, 1, 0, 0});
    session.set(slot, std::vector<int64_t>{16, 17, 18, 19, 20, 33, 32, -1, -1});
    session.set(q_start, std::vector<int32_t>{0, 5, 7});
    session.set(kv_len, std::vector<int32_t>{5, 2});
    session.set(table, std::vector<int32_t>{1, -1, 2, -1});
    session.set(out_rows, std::vector<int32_t>{4, 6, 0});
  }

  Split split{kTokens, kSeqs, kOuts, 2};
  uint32_t tokens, pos, slot, q_start, kv_len, table, out_rows, logits, best;

 private:
  // f32 only: keeps activations near 1 through the layer.
  static void shrink(Weight& w) {
    if (w.type != MINFER_TYPE_F32) return;
    for (float& v : w.values) v *= 0.2f;
    std::memcpy(w.file.data(), w.values.data(), w.file.size());
  }

  uint32_t add_norm(uint32_t x, const Weight& w, Dynamic rows, int64_t n) {
    const uint32_t out = split.inner(MINFER_TYPE_F32, {kDim, n}, rows);
    split.node(MINFER_OP_RMS_NORM, {x, split.weight(w, MINFER_USE_PLAIN)}, out,
               minfer_norm_params{0, 1e-5f, 0.0f, 0});
    return out;
  }

  uint32_t multiply(const Weight& w, uint32_t x, Dynamic rows, int64_t n,
                    const Weight* bias = nullptr) {
    const uint32_t out = split.inner(MINFER_TYPE_F32, {w.ne[1], n}, rows);
    std::vector<uint32_t> sources = {split.weight(w, MINFER_USE_MATMUL), x};
    if (bias != nullptr) sources.push_back(split.weight(*bias, MINFER_USE_PLAIN));
    split.node(MINFER_OP_MATMUL, sources, out);
    return out;
  }

  uint32_t heads_of(uint32_t x) {
    return split.view(x, {32, 2, kTokens}, {1, 32, kDim}, 0, {2, MINFER_DYN_TOKENS});
  }

  uint32_t turn(uint32_t x) {
    minfer_rope_params p{};
    p.n_rot = 32;
    p.freq_base = 10000.0f;
    p.freq_scale = p.attn_factor = 1.0f;
    const uint32_t out = split.inner(MINFER_TYPE_F32, {32, 2, kTokens}, {2, MINFER_DYN_TOKENS});
    split.node(MINFER_OP_ROPE, {heads_of(x), pos}, out, p);
    return out;
  }

  void add_inputs() {
    const Dynamic by_token{0, MINFER_DYN_TOKENS};
    tokens = split.input(MINFER_TYPE_I32, {kTokens}, MINFER_INPUT_TOKENS, by_token);
    pos = split.input(MINFER_TYPE_I32, {kTokens}, MINFER_INPUT_POS, by_token);
    slot = split.input(MINFER_TYPE_I64, {kTokens}, MINFER_INPUT_SLOT, by_token);
    q_start = split.input(MINFER_TYPE_I32, {kSeqs + 1}, MINFER_INPUT_Q_START);
    kv_len = split.input(MINFER_TYPE_I32, {kSeqs}, MINFER_INPUT_KV_LEN, {0, MINFER_DYN_SEQS});
    table =
        split.input(MINFER_TYPE_I32, {2, kSeqs}, MINFER_INPUT_BLOCK_TABLE, {1, MINFER_DYN_SEQS});
    out_rows = split.input(MINFER_TYPE_I32, {kOuts}, MINFER_INPUT_OUT_ROWS, {0, MINFER_DYN_OUTS});
  }

  uint32_t attention(uint32_t x) {
    const Dynamic rows{1, MINFER_DYN_TOKENS};
    minfer_kv_desc desc{};
    desc.type = MINFER_TYPE_F32;
    desc.n_head_kv = 2;
    desc.head_dim_k = desc.head_dim_v = 32;
    desc.page_tokens = 16;
    desc.n_pages = 4;
    const uint32_t kv = split.kv(desc);
    const uint32_t normed = add_norm(x, norm1_, rows, kTokens);
    // In the order of a model that finishes each of q, k, v before the next.
    const uint32_t q = turn(multiply(q_, normed, rows, kTokens, &bias_));
    const uint32_t k = turn(multiply(k_, normed, rows, kTokens));
    const uint32_t v = heads_of(multiply(v_, normed, rows, kTokens));
    split.node(MINFER_OP_KV_STORE, {k, v, slot}, MINFER_NONE, minfer_kv_params{0, kv});
    const uint32_t out = split.inner(MINFER_TYPE_F32, {kDim, kTokens}, rows);
    minfer_attention_params params{};
    params.kv = kv;
    params.n_head = 2;
    params.scale = 0.2f;
    params.causal = 1;
    split.node(MINFER_OP_ATTENTION, {q, pos, q_start, kv_len, table}, out, params);
    return multiply(o_, out, rows, kTokens);
  }

  uint32_t ffn(uint32_t x) {
    const Dynamic rows{1, MINFER_DYN_OUTS};
    const uint32_t gate = multiply(gate_, x, rows, kOuts);
    const uint32_t act = split.inner(MINFER_TYPE_F32, {kFf, kOuts}, rows);
    split.node(MINFER_OP_SILU, {gate}, act);
    const uint32_t up = multiply(up_, x, rows, kOuts);
    const uint32_t product = split.inner(MINFER_TYPE_F32, {kFf, kOuts}, rows);
    split.node(MINFER_OP_MUL, {act, up}, product);
    return multiply(down_, product, rows, kOuts);
  }

  uint32_t pick(uint32_t x) {
    const uint32_t out = split.inner(MINFER_TYPE_F32, {kDim, kOuts}, {1, MINFER_DYN_OUTS});
    split.node(MINFER_OP_GET_ROWS, {x, out_rows}, out);
    return out;
  }

  void build() {
    add_inputs();
    const Dynamic rows{1, MINFER_DYN_TOKENS}, outs{1, MINFER_DYN_OUTS};
    const uint32_t w = split.weight(embedding_, MINFER_USE_GATHER | MINFER_USE_MATMUL);
    const uint32_t x = split.inner(MINFER_TYPE_F32, {kDim, kTokens}, rows);
    split.node(MINFER_OP_GET_ROWS, {w, tokens}, x);
    const uint32_t attended = pick(attention(x));
    const uint32_t residual = split.inner(MINFER_TYPE_F32, {kDim, kOuts}, outs);
    split.node(MINFER_OP_ADD, {attended, pick(x)}, residual);
    const uint32_t fed = ffn(add_norm(residual, norm2_, outs, kOuts));
    const uint32_t sum = split.inner(MINFER_TYPE_F32, {kDim, kOuts}, outs);
    split.node(MINFER_OP_ADD, {residual, fed}, sum);
    const uint32_t last = add_norm(sum, norm3_, outs, kOuts);
    logits = split.output(MINFER_TYPE_F32, {kVocab, kOuts}, outs);
    split.node(MINFER_OP_MATMUL, {w, last}, logits);
    best = split.output(MINFER_TYPE_I32, {kOuts}, {0, MINFER_DYN_OUTS});
    split.node(MINFER_OP_ARG_MAX, {logits}, best);
  }

  Weight embedding_, norm1_, norm2_, norm3_, q_, k_, v_, o_, bias_, gate_, up_, down_;
};

std::vector<double> widen(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}

using Plan = OpTest;
OPS_ALL_LEVELS(Plan);

// Fusion and order may not change the meaning: the plain plan is the reference.
TEST_P(Plan, LayerFusedAndUnfusedAgree) {
  if (!has_gate("MINFER_CPU_FUSE")) GTEST_SKIP() << "the plugin has no gate that turns fusion off";
  Layer layer(rng);
  std::unique_ptr<Device> plain_device = std::make_unique<Device>(
      std::map<std::string, std::string>{{"MINFER_CPU_FUSE", "0"}, {"MINFER_CPU_ISA", GetParam()}});
  Session fused(device(), layer.split), plain(*plain_device, layer.split);
  EXPECT_LT(fused.info().n_launches, plain.info().n_launches);
  for (const Counts& counts :
       {Counts{7, 2, 3, 5}, Counts{7, 2, 2, 5}, Counts{7, 2, 0, 5}, Counts{0, 0, 0, 0}}) {
    SCOPED_TRACE(testing::Message() << counts.tokens << " tokens, " << counts.outs << " outs");
    layer.fill(fused);
    layer.fill(plain);
    fused.run(counts);
    plain.run(counts);
    const auto a = fused.get<float>(layer.logits), b = plain.get<float>(layer.logits);
    EXPECT_LT(relative_error(a, widen(b)), 1e-5);
    EXPECT_EQ(fused.get<int32_t>(layer.best), plain.get<int32_t>(layer.best));
    for (size_t i = counts.outs * 100; i < a.size(); ++i) ASSERT_EQ(a[i], 0.0f);
  }
}

// The same inputs give the same bits, whatever ran in between and wherever threads were.
TEST_P(Plan, RunsRepeatBitForBit) {
  Layer layer(rng, MINFER_TYPE_Q8_0);
  Session session(device(), layer.split);
  layer.fill(session);
  session.run({7, 2, 3, 5});
  const auto first = session.get<float>(layer.logits);
  for (int i = 0; i < 20; ++i) {
    layer.fill(session);
    session.run({7, 2, 3, 5});
    ASSERT_EQ(session.get<float>(layer.logits), first) << "run " << i;
  }
}

TEST_P(Plan, EveryNodeHasALabelAndATime) {
  Layer layer(rng, MINFER_TYPE_Q8_0);
  Session session(device(), layer.split);
  layer.fill(session);
  session.run({7, 2, 3, 5});
  const auto untimed = session.get<float>(layer.logits);
  layer.fill(session);
  session.run({7, 2, 3, 5}, MINFER_RUN_TIMED);
  EXPECT_LT(relative_error(session.get<float>(layer.logits), widen(untimed)), 1e-5);
  for (uint32_t i = 0; i < layer.split.nodes.size(); ++i) EXPECT_NE(session.label(i), "") << i;
  if (!MINFER_HAS_FN(&plugin(), plan_profile)) return;
  std::vector<minfer_node_time> times(layer.split.nodes.size());
  uint32_t n = 0;
  OPS_CALL(plan_profile, session.plan(), times.data(), static_cast<uint32_t>(times.size()), &n);
  EXPECT_EQ(n, times.size());
  const double total =
      std::accumulate(times.begin(), times.end(), 0.0,
                      [](double sum, const minfer_node_time& time) { return sum + time.seconds; });
  EXPECT_GT(total, 0.0);
}

// ---- wrong arguments: independent of the level
// ----------------------------------------------------------

class Contract : public testing::Test {
 protected:
  Device device;
  std::mt19937_64 rng = test_rng();
  minfer_error error = {};
};

TEST_F(Contract, QueryAndEnumerationRepeat) {
  minfer_device_info info{};
  info.struct_size = sizeof info;
  uint32_t n = 0;
  OPS_CALL(device_enumerate, nullptr, 0, 0, &n);
  ASSERT_GT(n, settings().device);
  std::vector<minfer_device_info> all(n, info);
  OPS_CALL(device_enumerate, all.data(), sizeof info, n, &n);
  for (const auto& one : all) {
    EXPECT_NE(one.name, nullptr);
    EXPECT_EQ(one.struct_size, sizeof info);
  }
}

// A host built with an older header hands smaller structs: what does not fit is not written.
TEST_F(Contract, SmallerStructsAreReadAndWritten) {
  struct {
    minfer_device_info info;
    uint8_t guard[8];
  } small;
  std::memset(&small, 0x5a, sizeof small);
  small.info.struct_size = offsetof(minfer_device_info, memory_free);
  uint32_t n = 0;
  OPS_CALL(device_enumerate, &small.info, sizeof small.info, 1, &n);
  EXPECT_EQ(small.info.memory_free, 0x5a5a5a5a5a5a5a5au);
  EXPECT_NE(small.info.memory_total, 0x5a5a5a5a5a5a5a5au);

  // A larger struct of a newer host: the tail is not read.
  struct Newer {
    minfer_capacity capacity;
    uint64_t more;
  } newer{};
  Split split(2);
  const uint32_t x = split.input(MINFER_TYPE_F32, {4, 2});
  const uint32_t out = split.output(MINFER_TYPE_F32, {4, 2});
  split.node(MINFER_OP_SILU, {x}, out);
  newer.capacity = split.capacity;
  newer.capacity.struct_size = sizeof newer;
  newer.more = ~uint64_t{0};
  minfer_split raw = *split.abi();
  raw.capacity = &newer.capacity;
  minfer_plan* plan = nullptr;
  minfer_plan_info info{};
  info.struct_size = sizeof info;
  OPS_CALL(plan_compile, device.handle, &raw, &device.gates, &plan, &info);
  plugin().plan_destroy(plan);
}

TEST_F(Contract, FailuresLeaveOutputsUntouchedAndSayWhy) {
  auto* const marker = reinterpret_cast<minfer_plan*>(uintptr_t{0x1234});
  minfer_plan* plan = marker;
  minfer_plan_info info{};
  info.struct_size = sizeof info;
  const auto compile = [&](Split& split) {
    error = {};
    plan = marker;
    const minfer_status status =
        plugin().plan_compile(device.handle, split.abi(), &device.gates, &plan, &info, &error);
    EXPECT_EQ(plan, marker);
    EXPECT_NE(std::strlen(error.text), 0u);
    return status;
  };
  {
    Split split;  // a source that does not exist
    split.node(MINFER_OP_SILU, {77}, split.output(MINFER_TYPE_F32, {4}));
    EXPECT_EQ(compile(split), MINFER_INVALID);
  }
  {
    Split split;  // shapes that do not fit
    const uint32_t x = split.input(MINFER_TYPE_F32, {4});
    split.node(MINFER_OP_SILU, {x}, split.output(MINFER_TYPE_F32, {5}));
    EXPECT_NE(compile(split), MINFER_OK);
    EXPECT_NE(std::string(error.text).find('5'), std::string::npos) << error.text;
  }
  {
    Split split;  // an operator from the future
    const uint32_t x = split.input(MINFER_TYPE_F32, {4});
    split.node(999, {x}, split.output(MINFER_TYPE_F32, {4}));
    EXPECT_NE(compile(split), MINFER_OK);
  }
  {
    Split split;  // a view past its owner
    const uint32_t x = split.input(MINFER_TYPE_F32, {8});
    const uint32_t v = split.view(x, {8}, {1}, 4);
    split.node(MINFER_OP_SILU, {v}, split.output(MINFER_TYPE_F32, {8}));
    EXPECT_EQ(compile(split), MINFER_INVALID);
  }
  {
    Split split;  // dimensions whose product overflows
    const uint32_t x = split.input(MINFER_TYPE_F32, {4});
    for (int64_t& n : split.tensors[x].ne) n = int64_t{1} << 40;
    split.node(MINFER_OP_SILU, {x}, split.output(MINFER_TYPE_F32, {4}));
    EXPECT_NE(compile(split), MINFER_OK);
  }
}

TEST_F(Contract, SupportsNamesTheRefusedNode) {
  Split split;
  const uint32_t x = split.input(MINFER_TYPE_F32, {4});
  const uint32_t y = split.inner(MINFER_TYPE_F32, {4});
  split.node(MINFER_OP_SILU, {x}, y);
  split.node(MINFER_OP_TOP_K, {y}, split.output(MINFER_TYPE_I32, {9}), minfer_top_k_params{0, 9});
  minfer_verdict verdict{};
  verdict.struct_size = sizeof verdict;
  OPS_CALL(supports, device.handle, split.abi(), &device.gates, &verdict);
  EXPECT_EQ(verdict.supported, 0u);
  EXPECT_EQ(verdict.node, 1u);
  EXPECT_NE(std::strlen(verdict.reason), 0u);
}

TEST_F(Contract, RunsRefuseCountsPastTheCapacity) {
  Split split(2);
  const uint32_t x =
      split.input(MINFER_TYPE_F32, {4, 2}, MINFER_INPUT_HIDDEN, {1, MINFER_DYN_TOKENS});
  split.node(MINFER_OP_SILU, {x}, split.output(MINFER_TYPE_F32, {4, 2}, {1, MINFER_DYN_TOKENS}));
  Session session(device, split);
  EXPECT_THROW(session.run({3, 1, 1, 0}), std::runtime_error);
  session.run({2, 1, 1, 0});
}

TEST_F(Contract, EachWeightIsReleasedOnceAndCounted) {
  const Weight a = random_weight(rng, MINFER_TYPE_Q4_K, 256, 64);
  const Weight b = f32_weight(random_floats(rng, 64), 64);
  Split split;
  split.weight(a, MINFER_USE_MATMUL);
  split.weight(b, MINFER_USE_PLAIN);
  minfer_memory before{}, during{}, after{};
  before.struct_size = during.struct_size = after.struct_size = sizeof before;
  OPS_CALL(device_memory, device.handle, &before);
  std::map<uint64_t, int> releases;
  {
    Weights weights(device, split);
    OPS_CALL(device_memory, device.handle, &during);
    EXPECT_EQ(during.held - before.held, weights.promised_bytes);
    releases = weights.releases;
    // Imported again, both are shared: nothing more is held.
    Weights again(device, split);
    minfer_memory shared{};
    shared.struct_size = sizeof shared;
    OPS_CALL(device_memory, device.handle, &shared);
    EXPECT_EQ(shared.held, during.held);
    EXPECT_EQ(again.promised_bytes, 0u);
    EXPECT_EQ(again.releases, (std::map<uint64_t, int>{{0, 1}, {1, 1}}));
  }
  OPS_CALL(device_memory, device.handle, &after);
  EXPECT_EQ(after.held, before.held);
  EXPECT_GE(after.peak, during.held);
  EXPECT_EQ(releases, (std::map<uint64_t, int>{{0, 1}, {1, 1}}));
}

TEST_F(Contract, BuffersRefuseWhatTheDeviceCannotHold) {
  auto* const marker = reinterpret_cast<minfer_buffer*>(uintptr_t{0x1234});
  minfer_buffer* buffer = marker;
  for (const uint64_t bytes : {uint64_t{1} << 50, ~uint64_t{0}, ~uint64_t{0} - 63}) {
    const minfer_status status = plugin().buffer_alloc(device.handle, bytes, &buffer, &error);
    EXPECT_TRUE(status == MINFER_OOM_HOST || status == MINFER_OOM_DEVICE) << status;
    EXPECT_EQ(buffer, marker);
    EXPECT_NE(std::strlen(error.text), 0u);
  }
  // The device stays usable.
  OPS_CALL(buffer_alloc, device.handle, 1000, &buffer);
  uint8_t byte = 7;
  EXPECT_EQ(plugin().buffer_write(device.queue, buffer, 1000, &byte, 1, &error), MINFER_INVALID);
  EXPECT_EQ(plugin().buffer_write(device.queue, buffer, ~uint64_t{0}, &byte, 2, &error),
            MINFER_INVALID);
  OPS_CALL(buffer_write, device.queue, buffer, 999, &byte, 1);
  OPS_CALL(queue_wait, device.queue);
  plugin().buffer_free(buffer);
}

TEST_F(Contract, PageSizesAscendAndHaveBytes) {
  minfer_kv_desc desc{};
  desc.struct_size = sizeof desc;
  desc.type = MINFER_TYPE_F16;
  desc.n_head_kv = 2;
  desc.head_dim_k = desc.head_dim_v = 64;
  uint32_t sizes[16] = {}, n = 16;
  OPS_CALL(kv_page_sizes, device.handle, &desc, sizes, &n);
  ASSERT_GT(n, 0u);
  EXPECT_TRUE(std::is_sorted(sizes, sizes + std::min(n, 16u)));
  for (uint32_t i = 0; i < std::min(n, 16u); ++i) {
    desc.page_tokens = sizes[i];
    uint64_t bytes = 0;
    OPS_CALL(kv_page_bytes, device.handle, &desc, &bytes);
    EXPECT_GE(bytes, uint64_t{sizes[i]} * 2 * 128 * 2);
  }
}

// Two queues of one device from two threads at once.
TEST_F(Contract, QueuesOfSeveralThreads) {
  Layer one(rng, MINFER_TYPE_Q8_0), two(rng, MINFER_TYPE_Q8_0);
  two.split.model = 2;
  Session a(device, one.split), b(device, two.split);
  one.fill(a);
  a.run({7, 2, 3, 5});
  two.fill(b);
  b.run({7, 2, 3, 5});
  const auto expect_a = a.get<float>(one.logits), expect_b = b.get<float>(two.logits);
  const auto repeat = [&](Session& session, const std::vector<float>& expected, uint32_t logits) {
    minfer_queue* queue = nullptr;
    OPS_CALL(queue_create, device.handle, &queue);
    minfer_run_args args{};
    args.struct_size = sizeof args;
    args.n_tokens = 7, args.n_seqs = 2, args.n_outs = 3, args.max_kv_len = 5;
    args.gates = &device.gates;
    for (int i = 0; i < 50; ++i) {
      OPS_CALL(plan_run, session.plan(), queue, &args);
      OPS_CALL(queue_wait, queue);
    }
    plugin().queue_destroy(queue);
    EXPECT_EQ(session.get<float>(logits), expected);
  };
  std::thread other([&] { repeat(b, expect_b, two.logits); });
  repeat(a, expect_a, one.logits);
  other.join();
}

}  // namespace
}  // namespace ops_test
