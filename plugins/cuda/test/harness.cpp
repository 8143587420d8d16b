// The driver of the CUDA tests (see harness.h).
#include "harness.h"

#include <cuda_runtime_api.h>

#include <cmath>
#include <cstdio>
#include <cstring>

#include "../host/device.h"
#include "minfer/quant_blocks.h"

extern "C" minfer_status minfer_plugin_query_v1(const minfer_host* host, const minfer_plugin** out,
                                                minfer_error* error);

namespace minfer_cuda::test {
namespace {

constexpr uint64_t kGuard = 1024;
constexpr uint32_t kPoison = 0x7fc0dead;  // a NaN no kernel writes
constexpr uint32_t kGuardPattern = 0x5a5a5a5a;

std::string& missing() {
  static std::string reason;
  return reason;
}

void log_to_stderr(void*, int32_t level, const char* line) {
  if (level > MINFER_LOG_DEBUG) std::fprintf(stderr, "[cuda] %s\n", line);
}

const minfer_host& host() {
  static const minfer_host table = [] {
    minfer_host h{};
    h.struct_size = sizeof h;
    h.abi_minor = MINFER_ABI_MINOR;
    h.core_version = "test";
    h.log = log_to_stderr;
    return h;
  }();
  return table;
}

}  // namespace

const std::string& Gpu::reason() {
  return missing();
}

int Gpu::compute_capability() const {
  return device_->caps().cc;
}

Gpu* Gpu::instance() {
  static Gpu* const gpu = []() -> Gpu* {
    auto* g = new Gpu;  // lives as long as the process, as plugins do
    minfer_error error{};
    minfer_device_info info{};
    info.struct_size = sizeof info;
    uint32_t n = 0;
    if (minfer_plugin_query_v1(&host(), &g->table_, &error) != MINFER_OK ||
        g->table_->device_enumerate(&info, sizeof info, 1, &n, &error) != MINFER_OK) {
      missing() = error.text;
      return nullptr;
    }
    if (n == 0 || info.score == 0) {
      missing() = info.reason ? info.reason : error.text;
      return nullptr;
    }
    if (g->table_->device_open(0, nullptr, &g->device_, &error) != MINFER_OK ||
        g->table_->queue_create(g->device_, &g->queue_, &error) != MINFER_OK) {
      missing() = error.text;
      return nullptr;
    }
    std::printf("device: %s, %s\n", info.name, info.details);
    return g;
  }();
  return gpu;
}

FullDevice::FullDevice() {
  // Down to the granularity in which the driver hands out memory.
  for (size_t bytes = size_t{1} << 32; bytes >= size_t{1} << 20; bytes /= 2) {
    void* memory = nullptr;
    while (cudaMalloc(&memory, bytes) == cudaSuccess) taken_.push_back(memory);
    cudaGetLastError();
  }
}

FullDevice::~FullDevice() {
  for (void* memory : taken_) cudaFree(memory);
}

Gates gates_with(const GateOverrides& changes) {
  std::vector<int64_t> values;
  for (uint32_t i = 0; i < static_cast<uint32_t>(Gate::kCount); ++i) {
    values.push_back(gate_table()[i].default_value);
  }
  for (const auto& [gate, value] : changes) values[static_cast<uint32_t>(gate)] = value;
  const minfer_gate_values given{sizeof given, static_cast<uint32_t>(values.size()), values.data()};
  return Gates(&given);
}

std::mt19937_64& rng() {
  static std::mt19937_64 generator = [] {
    const char* fixed = std::getenv("MINFER_TEST_SEED");
    const uint64_t seed = fixed ? std::strtoull(fixed, nullptr, 10) : std::random_device{}();
    std::printf("MINFER_TEST_SEED=%llu\n", static_cast<unsigned long long>(seed));
    return std::mt19937_64(seed);
  }();
  return generator;
}

std::vector<float> random_floats(size_t n, float scale) {
  std::normal_distribution<float> normal(0.f, scale);
  std::vector<float> v(n);
  for (float& x : v) x = normal(rng());
  return v;
}

namespace {

/// Where the f16 scales of a type's block lie, about how large its quants are, and the mean of
/// quants that a second scale is a minimum for.
struct ScalePlaces {
  std::vector<uint32_t> at;
  float quant_size;
  float mean = 0.f;
};

ScalePlaces scale_places(uint32_t type) {
  switch (type) {
    case MINFER_TYPE_Q4_0:
    case MINFER_TYPE_Q5_0:
    case MINFER_TYPE_IQ4_NL:
    case MINFER_TYPE_Q8_0:
      return {{0}, type == MINFER_TYPE_Q4_0 ? 5.f : type == MINFER_TYPE_Q5_0 ? 10.f : 70.f};
    case MINFER_TYPE_Q4_1:
    case MINFER_TYPE_Q5_1:
      return {{0, 2}, 8.f, type == MINFER_TYPE_Q4_1 ? 7.5f : 15.5f};
    case MINFER_TYPE_Q2_K:
      return {{80, 82}, 12.f};
    case MINFER_TYPE_Q3_K:
      return {{108}, 32.f};
    case MINFER_TYPE_Q4_K:
    case MINFER_TYPE_Q5_K:
      return {{0, 2}, 300.f};
    case MINFER_TYPE_Q6_K:
      return {{208}, 1200.f};
    case MINFER_TYPE_IQ4_XS:
      return {{0}, 900.f};
    default:
      return {{}, 1.f};
  }
}

}  // namespace

std::vector<uint8_t> random_rows(uint32_t type, int64_t id, int64_t rows) {
  const int64_t n = id * rows;
  const uint32_t values = minfer_type_values(type), bytes = minfer_type_bytes(type);
  std::vector<uint8_t> out(static_cast<size_t>(n / values) * bytes);
  if (type == MINFER_TYPE_F32) {
    const std::vector<float> v = random_floats(static_cast<size_t>(n));
    std::memcpy(out.data(), v.data(), out.size());
    return out;
  }
  if (type == MINFER_TYPE_F16 || type == MINFER_TYPE_BF16) {
    const std::vector<float> v = random_floats(static_cast<size_t>(n));
    for (size_t i = 0; i < v.size(); ++i) {
      const uint16_t h = type == MINFER_TYPE_F16
                             ? minfer_f32_to_f16(v[i])
                             : static_cast<uint16_t>(minfer_f32_to_bits(v[i]) >> 16);
      std::memcpy(out.data() + 2 * i, &h, 2);
    }
    return out;
  }
  for (uint8_t& b : out) b = static_cast<uint8_t>(rng()());
  const ScalePlaces places = scale_places(type);
  std::uniform_real_distribution<float> around(0.5f, 1.5f);
  for (size_t block = 0; block < out.size(); block += bytes) {
    float scale = 0.f;
    for (size_t i = 0; i < places.at.size(); ++i) {
      // A minimum that centres the values, as real weights are centred.
      const bool minimum = i == 1 && places.mean > 0.f;
      scale = minimum ? -scale * places.mean : around(rng()) / places.quant_size;
      const uint16_t h = minfer_f32_to_f16(scale);
      std::memcpy(out.data() + block + places.at[i], &h, 2);
    }
    if (type == MINFER_TYPE_MXFP4) out[block] = static_cast<uint8_t>(124 + rng()() % 5);
  }
  return out;
}

std::vector<float> dequantize(uint32_t type, const std::vector<uint8_t>& data, int64_t n) {
  std::vector<float> out(static_cast<size_t>(n));
  minfer_dequantize_row(type, data.data(), n, out.data());
  return out;
}

double relative_error(const std::vector<float>& a, const std::vector<double>& b) {
  double difference = 0, size = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    const double d = a[i] - b[i];
    if (std::isnan(d)) return INFINITY;
    difference += d * d;
    size += b[i] * b[i];
  }
  return std::sqrt(difference / std::max(size, 1e-30));
}

double relative_error(const std::vector<float>& a, const std::vector<float>& b) {
  return relative_error(a, std::vector<double>(b.begin(), b.end()));
}

Split::Split() {
  capacity.struct_size = sizeof capacity;
  capacity.tokens = capacity.seqs = capacity.outs = capacity.max_pages = capacity.n_pos = 1;
  args.struct_size = sizeof args;
  args.n_tokens = args.n_seqs = args.n_outs = 1;
  static uint64_t models = 0;
  model_ = ++models;
}

Split::~Split() {
  if (!Gpu::instance()) return;
  const minfer_plugin& p = Gpu::instance()->table();
  minfer_error error{};
  p.queue_wait(Gpu::instance()->queue(), &error);
  release_plan();
  for (auto& [t, m] : memory_) p.buffer_free(m.buffer);
  for (minfer_buffer* r : regions_) p.buffer_free(r);
  if (weights_) p.weights_free(weights_);
}

void Split::release_plan() {
  const minfer_plugin& p = Gpu::instance()->table();
  if (plan_) p.plan_destroy(plan_);
  if (workspace_) p.buffer_free(workspace_);
  plan_ = nullptr;
  workspace_ = nullptr;
}

Split& Split::dynamic(uint32_t axis, uint32_t count) {
  next_axis_ = axis;
  next_count_ = count;
  return *this;
}

uint32_t Split::add(uint32_t type, uint32_t kind, std::vector<int64_t> ne, uint32_t flags) {
  minfer_tensor t{};
  t.struct_size = sizeof t;
  t.type = type;
  t.kind = kind;
  t.flags = flags;
  ne.resize(4, 1);
  std::copy(ne.begin(), ne.end(), t.ne);
  t.nb[0] = minfer_type_bytes(type);
  if (type == MINFER_TYPE_I32) t.nb[0] = 4;
  if (type == MINFER_TYPE_I64) t.nb[0] = 8;
  const int64_t values = t.nb[0] && type < MINFER_TYPE_I32 ? minfer_type_values(type) : 1;
  t.nb[1] = t.nb[0] * (t.ne[0] / values);
  t.nb[2] = t.nb[1] * t.ne[1];
  t.nb[3] = t.nb[2] * t.ne[2];
  t.view_of = MINFER_NONE;
  t.dyn_axis = next_axis_;
  t.dyn_count = next_count_;
  next_axis_ = MINFER_NONE;
  next_count_ = 0;
  t.weight_id = tensors_.size();
  t.name = "tensor";
  tensors_.push_back(t);
  return static_cast<uint32_t>(tensors_.size() - 1);
}

uint32_t Split::input(uint32_t type, std::vector<int64_t> ne, const void* data) {
  const uint32_t t = add(type, MINFER_TENSOR_INPUT, std::move(ne), 0);
  const auto bytes = static_cast<size_t>(tensors_[t].nb[3] * tensors_[t].ne[3]);
  data_[t].assign(static_cast<const uint8_t*>(data), static_cast<const uint8_t*>(data) + bytes);
  return t;
}

uint32_t Split::floats(std::vector<int64_t> ne, const std::vector<float>& data) {
  return input(MINFER_TYPE_F32, std::move(ne), data.data());
}

uint32_t Split::ints(std::vector<int64_t> ne, const std::vector<int32_t>& data) {
  return input(MINFER_TYPE_I32, std::move(ne), data.data());
}

uint32_t Split::weight(uint32_t type, std::vector<int64_t> ne, std::vector<uint8_t> data,
                       uint32_t uses) {
  const uint32_t t = add(type, MINFER_TENSOR_WEIGHT, std::move(ne), 0);
  data_[t] = std::move(data);
  uses_[t] = uses;
  return t;
}

uint32_t Split::plain(const std::vector<float>& data) {
  std::vector<uint8_t> bytes(data.size() * 4);
  std::memcpy(bytes.data(), data.data(), bytes.size());
  return weight(MINFER_TYPE_F32, {static_cast<int64_t>(data.size())}, std::move(bytes),
                MINFER_USE_PLAIN);
}

uint32_t Split::activation(std::vector<int64_t> ne, bool escapes, uint32_t type) {
  return add(type, MINFER_TENSOR_ACTIVATION, std::move(ne), escapes ? MINFER_FLAG_ESCAPES : 0);
}

uint32_t Split::view(uint32_t of, std::vector<int64_t> ne, std::vector<int64_t> nb,
                     int64_t offset) {
  const minfer_tensor owner = tensors_[of];
  const uint32_t t = add(owner.type, MINFER_TENSOR_ACTIVATION, std::move(ne), 0);
  nb.resize(4, 0);
  std::copy(nb.begin(), nb.end(), tensors_[t].nb);
  tensors_[t].view_of = of;
  tensors_[t].view_offset = offset;
  return t;
}

uint32_t Split::kv(const minfer_kv_desc& desc) {
  kv_.push_back(desc);
  return static_cast<uint32_t>(kv_.size() - 1);
}

void Split::node(uint32_t op, std::vector<uint32_t> src, uint32_t dst, const void* params,
                 size_t params_size) {
  minfer_node n{};
  n.struct_size = sizeof n;
  n.op = op;
  n.revision = 1;
  n.n_src = static_cast<uint32_t>(src.size());
  n.dst = dst;
  n.name = "node";
  nodes_.push_back(n);
  sources_.push_back(std::move(src));
  const auto* bytes = static_cast<const uint8_t*>(params);
  params_.emplace_back(bytes, bytes + params_size);
}

minfer_split Split::split() {
  for (size_t i = 0; i < nodes_.size(); ++i) {
    nodes_[i].src = sources_[i].data();
    nodes_[i].params = params_[i].empty() ? nullptr : params_[i].data();
  }
  minfer_split s{};
  s.struct_size = sizeof s;
  s.n_tensors = static_cast<uint32_t>(tensors_.size());
  s.tensor_stride = sizeof(minfer_tensor);
  s.n_nodes = static_cast<uint32_t>(nodes_.size());
  s.node_stride = sizeof(minfer_node);
  s.n_kv = static_cast<uint32_t>(kv_.size());
  s.kv_stride = sizeof(minfer_kv_desc);
  s.tensors = tensors_.data();
  s.nodes = nodes_.data();
  s.kv = kv_.data();
  s.capacity = &capacity;
  s.model = model_;
  return s;
}

void Split::materialise() {
  const minfer_plugin& p = Gpu::instance()->table();
  std::vector<minfer_weight> weights;
  for (const auto& [t, uses] : uses_) {
    minfer_weight w{};
    w.struct_size = sizeof w;
    w.type = tensors_[t].type;
    w.uses = uses;
    w.id = tensors_[t].weight_id;
    std::copy(std::begin(tensors_[t].ne), std::end(tensors_[t].ne), w.ne);
    w.mapping = data_[t].data();
    w.mapping_bytes = w.bytes = data_[t].size();
    w.name = "weight";
    weights.push_back(w);
  }
  if (!weights.empty()) {
    minfer_weight_unit unit{};
    unit.struct_size = sizeof unit;
    unit.n_weights = static_cast<uint32_t>(weights.size());
    unit.weight_stride = sizeof(minfer_weight);
    unit.weights = weights.data();
    unit.model = model_;
    MINFER_OK_OR_FAIL(
        p.weights_import(Gpu::instance()->device(), &unit, nullptr, &weights_, error));
  }
  for (uint32_t t = 0; t < tensors_.size(); ++t) {
    const minfer_tensor& tensor = tensors_[t];
    const bool bound =
        tensor.kind == MINFER_TENSOR_INPUT ||
        (tensor.kind == MINFER_TENSOR_ACTIVATION && (tensor.flags & MINFER_FLAG_ESCAPES));
    if (!bound) continue;
    Memory m;
    m.bytes = static_cast<uint64_t>(tensor.nb[3] * tensor.ne[3]);
    MINFER_OK_OR_FAIL(
        p.buffer_alloc(Gpu::instance()->device(), m.bytes + 2 * kGuard, &m.buffer, error));
    memory_[t] = m;
    if (tensor.kind == MINFER_TENSOR_INPUT) write(t, data_[t].data());
  }
  for (const minfer_kv_desc& kv : kv_) {
    uint64_t page = 0;
    MINFER_OK_OR_FAIL(p.kv_page_bytes(Gpu::instance()->device(), &kv, &page, error));
    minfer_buffer* region = nullptr;
    const uint64_t bytes = page * kv.n_pages;
    MINFER_OK_OR_FAIL(p.buffer_alloc(Gpu::instance()->device(), bytes, &region, error));
    // Unwritten KV holds NaN: a kernel that lets it in shows.
    const std::vector<uint8_t> nan(bytes, 0xff);
    MINFER_OK_OR_FAIL(
        p.buffer_write(Gpu::instance()->queue(), region, 0, nan.data(), bytes, error));
    MINFER_OK_OR_FAIL(p.queue_wait(Gpu::instance()->queue(), error));
    regions_.push_back(region);
  }
}

void Split::write(uint32_t tensor, const void* data) {
  const minfer_plugin& p = Gpu::instance()->table();
  MINFER_OK_OR_FAIL(p.buffer_write(Gpu::instance()->queue(), memory_[tensor].buffer, kGuard, data,
                                   memory_[tensor].bytes, error));
  MINFER_OK_OR_FAIL(p.queue_wait(Gpu::instance()->queue(), error));
}

void Split::poison_outputs() {
  const minfer_plugin& p = Gpu::instance()->table();
  for (const auto& [t, m] : memory_) {
    if (tensors_[t].kind == MINFER_TENSOR_INPUT) continue;
    std::vector<uint32_t> pattern((m.bytes + 2 * kGuard) / 4, kGuardPattern);
    std::fill(pattern.begin() + kGuard / 4, pattern.end() - kGuard / 4, kPoison);
    MINFER_OK_OR_FAIL(p.buffer_write(Gpu::instance()->queue(), m.buffer, 0, pattern.data(),
                                     pattern.size() * 4, error));
    MINFER_OK_OR_FAIL(p.queue_wait(Gpu::instance()->queue(), error));
  }
}

void Split::check_guards() {
  const minfer_plugin& p = Gpu::instance()->table();
  for (const auto& [t, m] : memory_) {
    if (tensors_[t].kind == MINFER_TENSOR_INPUT) continue;
    std::vector<uint32_t> all((m.bytes + 2 * kGuard) / 4);
    MINFER_OK_OR_FAIL(
        p.buffer_read(Gpu::instance()->queue(), m.buffer, 0, all.data(), all.size() * 4, error));
    MINFER_OK_OR_FAIL(p.queue_wait(Gpu::instance()->queue(), error));
    for (size_t i = 0; i < all.size(); ++i) {
      const bool guard = i < kGuard / 4 || i >= all.size() - kGuard / 4;
      if (guard)
        ASSERT_EQ(all[i], kGuardPattern) << "guard of tensor " << t << " at word " << i;
      else
        ASSERT_NE(all[i], kPoison)
            << "tensor " << t << " not written at element " << i - kGuard / 4;
    }
  }
}

void Split::compile(const GateOverrides& gates) {
  const minfer_plugin& p = Gpu::instance()->table();
  release_plan();
  gate_values_.clear();
  for (uint32_t i = 0; i < p.n_gates; ++i) gate_values_.push_back(p.gates[i].default_value);
  for (const auto& [gate, value] : gates) gate_values_[static_cast<uint32_t>(gate)] = value;
  const minfer_gate_values values{sizeof values, p.n_gates, gate_values_.data()};
  const minfer_split s = split();
  minfer_verdict verdict{};
  verdict.struct_size = sizeof verdict;
  MINFER_OK_OR_FAIL(p.supports(Gpu::instance()->device(), &s, &values, &verdict, error));
  ASSERT_EQ(verdict.supported, 1u) << verdict.reason;
  info_ = {};
  info_.struct_size = sizeof info_;
  MINFER_OK_OR_FAIL(p.plan_compile(Gpu::instance()->device(), &s, &values, &plan_, &info_, error));
  MINFER_OK_OR_FAIL(p.buffer_alloc(Gpu::instance()->device(), info_.workspace_bytes + kGuard,
                                   &workspace_, error));
  bind();
}

void Split::bind() {
  const minfer_plugin& p = Gpu::instance()->table();
  std::vector<minfer_binding> bindings;
  for (const auto& [t, m] : memory_) bindings.push_back({t, 0, m.buffer, kGuard});
  minfer_bindings b{};
  b.struct_size = sizeof b;
  b.n_bindings = static_cast<uint32_t>(bindings.size());
  b.bindings = bindings.data();
  b.kv = regions_.data();
  b.workspace = workspace_;
  b.generation = generation_;
  MINFER_OK_OR_FAIL(p.plan_bind(plan_, &b, error));
}

void Split::rebind() {
  const minfer_plugin& p = Gpu::instance()->table();
  for (auto& [t, m] : memory_) {
    minfer_buffer* moved = nullptr;
    MINFER_OK_OR_FAIL(
        p.buffer_alloc(Gpu::instance()->device(), m.bytes + 2 * kGuard, &moved, error));
    MINFER_OK_OR_FAIL(p.buffer_copy(Gpu::instance()->queue(), moved, 0, m.buffer, 0,
                                    m.bytes + 2 * kGuard, error));
    MINFER_OK_OR_FAIL(p.queue_wait(Gpu::instance()->queue(), error));
    p.buffer_free(m.buffer);
    m.buffer = moved;
  }
  ++generation_;
  bind();
}

void Split::run() {
  const minfer_plugin& p = Gpu::instance()->table();
  MINFER_OK_OR_FAIL(p.plan_run(plan_, Gpu::instance()->queue(), &args, error));
  MINFER_OK_OR_FAIL(p.queue_wait(Gpu::instance()->queue(), error));
}

void Split::compute(const GateOverrides& gates) {
  compile(gates);
  if (::testing::Test::HasFatalFailure()) return;
  poison_outputs();
  run();
  if (::testing::Test::HasFatalFailure()) return;
  check_guards();
}

std::vector<float> Split::read(uint32_t tensor) {
  const minfer_plugin& p = Gpu::instance()->table();
  std::vector<float> out(memory_[tensor].bytes / 4);
  minfer_error error{};
  const minfer_status read = p.buffer_read(Gpu::instance()->queue(), memory_[tensor].buffer, kGuard,
                                           out.data(), memory_[tensor].bytes, &error);
  const minfer_status waited = p.queue_wait(Gpu::instance()->queue(), &error);
  EXPECT_EQ(read, MINFER_OK) << error.text;
  EXPECT_EQ(waited, MINFER_OK) << error.text;
  return out;
}

std::vector<int32_t> Split::read_ints(uint32_t tensor) {
  const std::vector<float> raw = read(tensor);
  std::vector<int32_t> out(raw.size());
  std::memcpy(out.data(), raw.data(), raw.size() * 4);
  return out;
}

std::string Split::kernel(uint32_t node) {
  minfer_node_report report{};
  report.struct_size = sizeof report;
  minfer_error error{};
  Gpu::instance()->table().plan_describe(plan_, node, &report, &error);
  return report.kernel;
}

}  // namespace minfer_cuda::test
