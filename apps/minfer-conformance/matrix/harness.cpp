// Loading, memory, splits and runs.
#include "harness.h"

#include <dlfcn.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "minfer/quant_blocks.h"

namespace conformance {
namespace {

constexpr uint64_t kGuardBytes = 4096;
constexpr uint8_t kGuard = 0xa5;
constexpr uint8_t kPoison = 0xff;

const minfer_plugin* load() {
  void* library = dlopen(settings().plugin.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error(dlerror());
  void* symbol = dlsym(library, MINFER_QUERY_SYMBOL);
  if (symbol == nullptr) throw std::runtime_error(dlerror());
  minfer_plugin_query_fn query;
  std::memcpy(&query, &symbol, sizeof query);
  const minfer_plugin* table = nullptr;
  minfer_error error = {};
  require_ok(query(&host(), &table, &error), error, MINFER_QUERY_SYMBOL);
  return table;
}

const minfer_gate& gate_at(uint32_t i) {
  return *reinterpret_cast<const minfer_gate*>(reinterpret_cast<const char*>(plugin().gates) +
                                               size_t{i} * plugin().gate_stride);
}

// The value of an enum gate's choice, or the number itself.
int64_t gate_value(const minfer_gate& gate, const std::string& text) {
  if (gate.type != MINFER_GATE_ENUM) return std::stoll(text);
  std::istringstream choices(gate.choices);
  std::string choice;
  for (int64_t i = 0; std::getline(choices, choice, '|'); ++i) {
    if (choice == text) return i;
  }
  throw std::runtime_error(std::string(gate.name) + " has no choice " + text);
}

}  // namespace

const minfer_host& host() {
  static const minfer_host table = [] {
    minfer_host h{};
    h.struct_size = sizeof h;
    h.abi_minor = MINFER_ABI_MINOR;
    h.core_version = "minfer conformance";
    h.log = [](void*, int32_t, const char*) {};
    h.get_interface = [](void*, const char*, uint32_t) -> const void* { return nullptr; };
    return h;
  }();
  return table;
}

Settings& settings() {
  static Settings value;
  return value;
}

const minfer_plugin& plugin() {
  static const minfer_plugin* table = load();
  return *table;
}

std::string describe_device(uint32_t index) {
  minfer_error error = {};
  uint32_t n = 0;
  require_ok(plugin().device_enumerate(nullptr, 0, 0, &n, &error), error, "device_enumerate");
  if (n == 0) throw Refused(error.text[0] != 0 ? error.text : "the plugin offers none");
  if (index >= n) throw Refused(fmt::format("device {} does not exist, there are {}", index, n));
  minfer_device_info info{};
  info.struct_size = sizeof info;
  std::vector<minfer_device_info> all(n, info);
  MINFER_CALL(device_enumerate, all.data(), sizeof info, n, &n);
  const minfer_device_info& it = all[index];
  if (it.score == 0) throw Refused(it.reason != nullptr ? it.reason : "unusable, without a reason");
  return fmt::format("{}:{}, {}; {} {}", plugin().backend, index, it.name,
                     it.details != nullptr ? it.details : "", plugin().version);
}

void require_ok(minfer_status status, const minfer_error& error, const char* function) {
  if (status == MINFER_OK) return;
  std::ostringstream text;
  text << function << " returned " << status << ": " << error.text;
  throw std::runtime_error(text.str());
}

std::mt19937_64 seeded_rng(const std::string& name) {
  return std::mt19937_64(settings().seed ^ std::hash<std::string>()(name));
}

bool has_gate(const char* name) {
  for (uint32_t i = 0; i < plugin().n_gates; ++i) {
    if (std::strcmp(gate_at(i).name, name) == 0) return true;
  }
  return false;
}

std::vector<float> random_floats(std::mt19937_64& rng, int64_t n, float scale) {
  std::normal_distribution<float> normal(0.0f, scale);
  std::vector<float> values(static_cast<size_t>(n));
  for (float& value : values) value = normal(rng);
  return values;
}

// ---- device
// -------------------------------------------------------------------------------------------

Device::Device(const std::map<std::string, std::string>& wanted) {
  const minfer_plugin& table = plugin();
  for (uint32_t i = 0; i < table.n_gates; ++i) {
    const minfer_gate& gate = gate_at(i);
    const auto found = wanted.find(gate.name);
    values_.push_back(found == wanted.end() ? gate.default_value : gate_value(gate, found->second));
  }
  gates.struct_size = sizeof gates;
  gates.n = table.n_gates;
  gates.values = values_.data();
  minfer_error error = {};
  const minfer_status status = table.device_open(settings().device, &gates, &handle, &error);
  if (status == MINFER_UNSUPPORTED) throw Refused(error.text);
  require_ok(status, error, "device_open");
  MINFER_CALL(queue_create, handle, &queue);
}

Device::~Device() {
  if (queue != nullptr) plugin().queue_destroy(queue);
  if (handle != nullptr) plugin().device_close(handle);
}

// ---- memory
// -------------------------------------------------------------------------------------------

Memory::Memory(Device& device, uint64_t size, bool guard_before)
    : start(guard_before ? kGuardBytes : 0), bytes(size), device_(device) {
  MINFER_CALL(buffer_alloc, device.handle, start + bytes + kGuardBytes, &buffer);
  const std::vector<uint8_t> all(start + bytes + kGuardBytes, kGuard);
  MINFER_CALL(buffer_write, device.queue, buffer, 0, all.data(), all.size());
  MINFER_CALL(queue_wait, device.queue);
  poison();
}

Memory::~Memory() {
  plugin().buffer_free(buffer);
}

void Memory::poison() {
  const std::vector<uint8_t> all(bytes, kPoison);
  write(0, all.data(), all.size());
}

void Memory::clear() {
  const std::vector<uint8_t> all(bytes, 0);
  write(0, all.data(), all.size());
}

void Memory::write(uint64_t offset, const void* data, uint64_t n) {
  if (n == 0) return;
  MINFER_CALL(buffer_write, device_.queue, buffer, start + offset, data, n);
  MINFER_CALL(queue_wait, device_.queue);
}

void Memory::read(uint64_t offset, void* data, uint64_t n) {
  if (n == 0) return;
  MINFER_CALL(buffer_read, device_.queue, buffer, start + offset, data, n);
  MINFER_CALL(queue_wait, device_.queue);
}

bool Memory::guards_intact() {
  std::vector<uint8_t> band(kGuardBytes);
  const auto intact = [&](uint64_t at, uint64_t n) {
    MINFER_CALL(buffer_read, device_.queue, buffer, at, band.data(), n);
    MINFER_CALL(queue_wait, device_.queue);
    for (uint64_t i = 0; i < n; ++i) {
      if (band[i] != kGuard) return false;
    }
    return true;
  };
  return intact(0, start) && intact(start + bytes, kGuardBytes);
}

// ---- weights
// ------------------------------------------------------------------------------------------

namespace {

uint16_t random_half(std::mt19937_64& rng, float largest) {
  std::uniform_real_distribution<float> uniform(largest / 4, largest);
  const bool negative = (rng() & 1) != 0;
  return minfer_f32_to_f16(negative ? -uniform(rng) : uniform(rng));
}

// Where a block's f16 scales lie, and how large they may be for values around 1.
void set_scales(std::mt19937_64& rng, uint32_t type, uint8_t* block) {
  const auto put = [&](size_t at, float largest) {
    const uint16_t half = random_half(rng, largest);
    std::memcpy(block + at, &half, sizeof half);
  };
  switch (type) {
    case MINFER_TYPE_Q4_0:
      return put(0, 0.2f);
    case MINFER_TYPE_Q4_1:
      put(0, 0.2f);
      return put(2, 1.0f);
    case MINFER_TYPE_Q5_0:
      return put(0, 0.1f);
    case MINFER_TYPE_Q5_1:
      put(0, 0.1f);
      return put(2, 1.0f);
    case MINFER_TYPE_Q8_0:
      return put(0, 0.01f);
    case MINFER_TYPE_Q2_K:
      put(80, 0.05f);
      return put(82, 0.05f);
    case MINFER_TYPE_Q3_K:
      return put(108, 0.02f);
    case MINFER_TYPE_Q4_K:
    case MINFER_TYPE_Q5_K:
      put(0, 0.005f);
      return put(2, 0.02f);
    case MINFER_TYPE_Q6_K:
      return put(208, 0.0005f);
    case MINFER_TYPE_IQ4_NL:
      return put(0, 0.01f);
    case MINFER_TYPE_IQ4_XS:
      return put(0, 0.0005f);
    case MINFER_TYPE_MXFP4:
      block[0] = static_cast<uint8_t>(124 + rng() % 4);
      return;
    default:
      return;
  }
}

}  // namespace

Weight random_weight(std::mt19937_64& rng, uint32_t type, int64_t n0, int64_t n1, int64_t n2) {
  Weight weight;
  weight.type = type;
  weight.ne[0] = n0;
  weight.ne[1] = n1;
  weight.ne[2] = n2;
  const int64_t elements = n0 * n1 * n2;
  const int64_t blocks = elements / minfer_type_values(type);
  const size_t block_bytes = minfer_type_bytes(type);
  weight.file.resize(static_cast<size_t>(blocks) * block_bytes);
  std::normal_distribution<float> normal;
  for (int64_t b = 0; b < blocks; ++b) {
    uint8_t* block = weight.file.data() + static_cast<size_t>(b) * block_bytes;
    if (type == MINFER_TYPE_F32) {
      const float value = normal(rng);
      std::memcpy(block, &value, sizeof value);
    } else if (type == MINFER_TYPE_F16) {
      const uint16_t value = minfer_f32_to_f16(normal(rng));
      std::memcpy(block, &value, sizeof value);
    } else if (type == MINFER_TYPE_BF16) {
      const auto value = static_cast<uint16_t>(minfer_f32_to_bits(normal(rng)) >> 16);
      std::memcpy(block, &value, sizeof value);
    } else {
      for (size_t i = 0; i < block_bytes; ++i) block[i] = static_cast<uint8_t>(rng());
      set_scales(rng, type, block);
    }
  }
  weight.values.resize(static_cast<size_t>(elements));
  minfer_dequantize_row(type, weight.file.data(), elements, weight.values.data());
  return weight;
}

Weight f32_weight(const std::vector<float>& values, int64_t n0, int64_t n1) {
  Weight weight;
  weight.ne[0] = n0;
  weight.ne[1] = n1;
  weight.values = values;
  weight.file.resize(values.size() * sizeof(float));
  std::memcpy(weight.file.data(), values.data(), weight.file.size());
  return weight;
}

// ---- splits
// -------------------------------------------------------------------------------------------

Dims::Dims(std::initializer_list<int64_t> list) {
  size_t i = 0;
  for (int64_t n : list) ne[i++] = n;
}

Split::Split(uint32_t tokens, uint32_t seqs, uint32_t outs, uint32_t max_pages) {
  capacity.struct_size = sizeof capacity;
  capacity.tokens = tokens;
  capacity.seqs = seqs;
  capacity.outs = outs;
  capacity.max_pages = max_pages;
  capacity.n_pos = 1;
}

uint32_t Split::add(uint32_t type, Dims dims, uint32_t kind, uint32_t flags, Dynamic dynamic) {
  minfer_tensor t{};
  t.struct_size = sizeof t;
  t.type = type;
  t.kind = kind;
  t.flags = flags;
  int64_t stride = minfer_type_bytes(type);
  for (int i = 0; i < 4; ++i) {
    t.ne[i] = dims.ne[i];
    t.nb[i] = stride;
    stride *= i == 0 ? dims.ne[0] / minfer_type_values(type) : dims.ne[i];
  }
  t.dyn_axis = dynamic.axis;
  t.dyn_count = dynamic.count;
  t.view_of = MINFER_NONE;
  names_.push_back(std::make_unique<std::string>("t" + std::to_string(tensors.size())));
  t.name = names_.back()->c_str();
  tensors.push_back(t);
  return static_cast<uint32_t>(tensors.size() - 1);
}

uint32_t Split::input(uint32_t type, Dims dims, uint32_t input_kind, Dynamic dynamic) {
  const uint32_t index = add(type, dims, MINFER_TENSOR_INPUT, 0, dynamic);
  tensors[index].input = input_kind;
  return index;
}

uint32_t Split::inner(uint32_t type, Dims dims, Dynamic dynamic) {
  return add(type, dims, MINFER_TENSOR_ACTIVATION, 0, dynamic);
}

uint32_t Split::output(uint32_t type, Dims dims, Dynamic dynamic) {
  return add(type, dims, MINFER_TENSOR_ACTIVATION, MINFER_FLAG_ESCAPES, dynamic);
}

uint32_t Split::weight(const Weight& weight, uint32_t uses) {
  const uint32_t index = add(weight.type, {weight.ne[0], weight.ne[1], weight.ne[2]},
                             MINFER_TENSOR_WEIGHT, 0, kStatic);
  tensors[index].weight_id = index;
  tensors[index].reserved = uses;  // for Weights; plugins do not look at it
  weights.emplace_back(index, &weight);
  return index;
}

uint32_t Split::view(uint32_t of, Dims dims, std::initializer_list<int64_t> strides, int64_t offset,
                     Dynamic dynamic) {
  const int64_t size = minfer_type_bytes(tensors[of].type);
  const uint32_t index = add(tensors[of].type, dims, MINFER_TENSOR_ACTIVATION, 0, dynamic);
  tensors[index].view_of = of;
  tensors[index].view_offset = offset * size;
  size_t i = 0;
  for (int64_t stride : strides) tensors[index].nb[i++] = stride * size;
  for (; i < 4; ++i) tensors[index].nb[i] = tensors[index].nb[i - 1] * tensors[index].ne[i - 1];
  return index;
}

void Split::add_node(uint32_t op, std::vector<uint32_t> src, uint32_t dst, const void* params,
                     size_t bytes) {
  sources_.push_back(std::make_unique<std::vector<uint32_t>>(std::move(src)));
  const auto* from = static_cast<const uint8_t*>(params);
  params_.push_back(std::make_unique<std::vector<uint8_t>>(from, from + bytes));
  names_.push_back(std::make_unique<std::string>("n" + std::to_string(nodes.size())));
  minfer_node n{};
  n.struct_size = sizeof n;
  n.op = op;
  n.revision = 1;
  n.n_src = static_cast<uint32_t>(sources_.back()->size());
  n.src = sources_.back()->data();
  n.dst = dst;
  n.params = bytes > 0 ? params_.back()->data() : nullptr;
  n.name = names_.back()->c_str();
  nodes.push_back(n);
}

uint32_t Split::kv(const minfer_kv_desc& desc) {
  regions.push_back(desc);
  regions.back().struct_size = sizeof(minfer_kv_desc);
  return static_cast<uint32_t>(regions.size() - 1);
}

const minfer_split* Split::abi() {
  abi_.struct_size = sizeof abi_;
  abi_.n_tensors = static_cast<uint32_t>(tensors.size());
  abi_.tensor_stride = sizeof(minfer_tensor);
  abi_.n_nodes = static_cast<uint32_t>(nodes.size());
  abi_.node_stride = sizeof(minfer_node);
  abi_.n_kv = static_cast<uint32_t>(regions.size());
  abi_.kv_stride = sizeof(minfer_kv_desc);
  abi_.tensors = tensors.data();
  abi_.nodes = nodes.data();
  abi_.kv = regions.data();
  abi_.capacity = &capacity;
  abi_.model = model;
  return &abi_;
}

uint64_t span_bytes(const minfer_tensor& t) {
  int64_t span = minfer_type_bytes(t.type);
  for (int i = 0; i < 4; ++i) {
    if (t.ne[i] == 0) return 0;
    span += (t.ne[i] - 1) * t.nb[i];
  }
  return static_cast<uint64_t>(span);
}

Weights::Weights(Device& device, Split& split) {
  std::vector<minfer_weight> list;
  for (const auto& [index, weight] : split.weights) {
    minfer_weight w{};
    w.struct_size = sizeof w;
    w.type = weight->type;
    w.uses = split.tensors[index].reserved;
    w.id = split.tensors[index].weight_id;
    for (int i = 0; i < 4; ++i) w.ne[i] = weight->ne[i];
    w.mapping = weight->file.data();
    w.mapping_bytes = w.bytes = weight->file.size();
    w.name = "weight";
    list.push_back(w);
  }
  minfer_weight_unit unit{};
  unit.struct_size = sizeof unit;
  unit.n_weights = static_cast<uint32_t>(list.size());
  unit.weight_stride = sizeof(minfer_weight);
  unit.weights = list.data();
  unit.model = split.model;
  unit.release = [](void* ctx, uint64_t id) { ++static_cast<Weights*>(ctx)->releases[id]; };
  unit.release_ctx = this;
  MINFER_CALL(weights_size, device.handle, &unit, &device.gates, &promised_bytes);
  MINFER_CALL(weights_import, device.handle, &unit, &device.gates, &handle_);
}

Weights::~Weights() {
  if (handle_ != nullptr) plugin().weights_free(handle_);
}

// ---- runs
// ---------------------------------------------------------------------------------------------

minfer_verdict ask_support(Device& device, Split& split) {
  minfer_verdict verdict{};
  verdict.struct_size = sizeof verdict;
  MINFER_CALL(supports, device.handle, split.abi(), &device.gates, &verdict);
  return verdict;
}

Session::Session(Device& device, Split& split, const minfer_split* as)
    : device_(device), split_(split) {
  const minfer_verdict verdict = ask_support(device, split);
  if (verdict.supported != 1) throw Refused(verdict.reason);
  weights_ = std::make_unique<Weights>(device, split);
  info_.struct_size = sizeof info_;
  MINFER_CALL(plan_compile, device.handle, as != nullptr ? as : split.abi(), &device.gates, &plan_,
              &info_);
  for (uint32_t i = 0; i < split.tensors.size(); ++i) {
    const minfer_tensor& t = split.tensors[i];
    if (t.view_of != MINFER_NONE || t.kind == MINFER_TENSOR_WEIGHT) continue;
    if (t.kind == MINFER_TENSOR_INPUT || (t.flags & MINFER_FLAG_ESCAPES) != 0) {
      memory_[i] = std::make_unique<Memory>(device, span_bytes(t));
    }
  }
  for (const minfer_kv_desc& desc : split.regions) {
    uint64_t page = 0;
    MINFER_CALL(kv_page_bytes, device.handle, &desc, &page);
    regions_.push_back(std::make_unique<Memory>(device, page * desc.n_pages, false));
  }
  workspace_ = std::make_unique<Memory>(device, info_.workspace_bytes);
  bind();
}

Session::~Session() {
  if (plan_ != nullptr) plugin().plan_destroy(plan_);
}

void Session::bind() {
  std::vector<minfer_binding> list;
  for (const auto& [index, memory] : memory_) {
    list.push_back({index, 0, memory->buffer, memory->start});
  }
  std::vector<minfer_buffer*> kv;
  for (const auto& region : regions_) kv.push_back(region->buffer);
  minfer_bindings bindings{};
  bindings.struct_size = sizeof bindings;
  bindings.n_bindings = static_cast<uint32_t>(list.size());
  bindings.bindings = list.data();
  bindings.kv = kv.data();
  bindings.workspace = workspace_->buffer;
  bindings.workspace_offset = workspace_->start;
  bindings.generation = ++generation_;
  MINFER_CALL(plan_bind, plan_, &bindings);
}

void Session::move() {
  // What was there before lives until the new memory is, so that no address comes back.
  const auto old = std::exchange(memory_, {});
  for (const auto& [index, memory] : old)
    memory_[index] = std::make_unique<Memory>(device_, memory->bytes);
  const auto old_workspace =
      std::exchange(workspace_, std::make_unique<Memory>(device_, info_.workspace_bytes));
  bind();
}

void Session::write(uint32_t tensor, const void* data, uint64_t bytes) {
  if (bytes > memory_.at(tensor)->bytes)
    throw std::runtime_error("more values than the tensor has");
  memory_.at(tensor)->write(0, data, bytes);
}

void Session::run(const Counts& counts, uint32_t flags) {
  for (auto& [index, memory] : memory_) {
    if (split_.tensors[index].kind != MINFER_TENSOR_INPUT) memory->poison();
  }
  workspace_->poison();
  minfer_run_args args{};
  args.struct_size = sizeof args;
  args.flags = flags;
  args.n_tokens = counts.tokens;
  args.n_seqs = counts.seqs;
  args.n_outs = counts.outs;
  args.max_kv_len = counts.max_kv_len;
  args.gates = &device_.gates;
  MINFER_CALL(plan_run, plan_, device_.queue, &args);
  MINFER_CALL(queue_wait, device_.queue);
  for (auto& [index, memory] : memory_) {
    expect(memory->guards_intact(), fmt::format("memory around tensor {} was written", index));
  }
  for (auto& region : regions_)
    expect(region->guards_intact(), "memory after a KV region was written");
  expect(workspace_->guards_intact(), "memory around the workspace was written");
}

std::string Session::label(uint32_t node) {
  minfer_node_report report{};
  report.struct_size = sizeof report;
  MINFER_CALL(plan_describe, plan_, node, &report);
  return report.kernel;
}

double relative_error(const std::vector<float>& out, const std::vector<double>& ref,
                      double least_norm) {
  if (out.size() != ref.size()) return std::numeric_limits<double>::infinity();
  double difference = 0.0, norm = 0.0;
  for (size_t i = 0; i < out.size(); ++i) {
    if (!std::isfinite(out[i])) return std::numeric_limits<double>::infinity();
    difference += (out[i] - ref[i]) * (out[i] - ref[i]);
    norm += ref[i] * ref[i];
  }
  norm = std::max(std::sqrt(norm), least_norm);
  return norm == 0.0 ? std::sqrt(difference) : std::sqrt(difference) / norm;
}

}  // namespace conformance
