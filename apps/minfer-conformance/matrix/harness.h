// Drives a backend plugin through the C ABI alone: any plugin, any device, no core. All device
// memory is written and read with buffer_write and buffer_read; everything that a plan may write is
// poisoned before, and guard bands around it are checked after.
//
// Which plugin, which device and the seed of all random inputs are the driver's choice, made before
// the first call. An object is used by one thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "findings.h"
#include "minfer/plugin_abi.h"

namespace conformance {

/// Set by the driver before anything else here is called.
struct Settings {
  std::string plugin;
  uint32_t device = 0;
  uint64_t seed = 0;
};
Settings& settings();

/// The plugin's table; loaded once. Throws std::runtime_error with the reason.
const minfer_plugin& plugin();
/// Name, details and version of a device; throws Refused with the reason where it is not usable.
std::string describe_device(uint32_t index);
/// What plugins are given as the host: its log lines go nowhere.
const minfer_host& host();
/// Whether the plugin declares a gate of this name.
bool has_gate(const char* name);

/// A generator whose stream depends on the seed and a name.
std::mt19937_64 seeded_rng(const std::string& name);
std::vector<float> random_floats(std::mt19937_64& rng, int64_t n, float scale = 1.0f);

/// Calls that must succeed: throws std::runtime_error with the function's name, status and text.
#define MINFER_CALL(function, ...)                                                 \
  do {                                                                             \
    minfer_error call_error = {};                                                  \
    const minfer_status call_status = plugin().function(__VA_ARGS__, &call_error); \
    ::conformance::require_ok(call_status, call_error, #function);                 \
  } while (false)
void require_ok(minfer_status status, const minfer_error& error, const char* function);

/// An open device with its gates and one queue.
class Device {
 public:
  /// `gates`: by name; a name that the plugin lacks is ignored. Throws Refused when the device says
  /// that it cannot run with them.
  explicit Device(const std::map<std::string, std::string>& gates = {});
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  minfer_device* handle = nullptr;
  minfer_queue* queue = nullptr;
  minfer_gate_values gates = {};

 private:
  std::vector<int64_t> values_;
};

/// Device memory with a guard band on both sides. Filled with 0xff, which is NaN in every float
/// type.
class Memory {
 public:
  Memory(Device& device, uint64_t bytes, bool guard_before = true);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  void poison();
  void clear();  ///< all zeros
  void write(uint64_t offset, const void* data, uint64_t bytes);
  void read(uint64_t offset, void* data, uint64_t bytes);
  /// True while nobody wrote outside the `bytes` asked for.
  bool guards_intact();

  minfer_buffer* buffer = nullptr;
  uint64_t start = 0;  ///< offset of the memory in the buffer
  uint64_t bytes = 0;

 private:
  Device& device_;
};

/// A weight: random file bytes of a type, and what they mean.
struct Weight {
  uint32_t type = MINFER_TYPE_F32;
  int64_t ne[4] = {1, 1, 1, 1};
  std::vector<uint8_t> file;
  std::vector<float> values;  ///< dequantised exactly

  const float* row(int64_t r) const { return values.data() + r * ne[0]; }
};
/// Random blocks with scales of a sensible size, so that values are around 1.
Weight random_weight(std::mt19937_64& rng, uint32_t type, int64_t n0, int64_t n1 = 1,
                     int64_t n2 = 1);
Weight f32_weight(const std::vector<float>& values, int64_t n0, int64_t n1 = 1);

struct Dims {
  int64_t ne[4] = {1, 1, 1, 1};
  Dims(std::initializer_list<int64_t> list);
  int64_t elements() const { return ne[0] * ne[1] * ne[2] * ne[3]; }
};

/// The axis of a tensor whose length comes with a run.
struct Dynamic {
  uint32_t axis = MINFER_NONE;
  uint32_t count = MINFER_DYN_NONE;
};
inline constexpr Dynamic kStatic{};

/// A split under construction. Tensors are named by index.
class Split {
 public:
  explicit Split(uint32_t tokens = 1, uint32_t seqs = 1, uint32_t outs = 1, uint32_t max_pages = 1);

  uint32_t input(uint32_t type, Dims dims, uint32_t input_kind = MINFER_INPUT_HIDDEN,
                 Dynamic dynamic = kStatic);
  uint32_t inner(uint32_t type, Dims dims, Dynamic dynamic = kStatic);
  uint32_t output(uint32_t type, Dims dims, Dynamic dynamic = kStatic);
  uint32_t weight(const Weight& weight, uint32_t uses);
  /// A view of `of` with strides in elements.
  uint32_t view(uint32_t of, Dims dims, std::initializer_list<int64_t> strides, int64_t offset = 0,
                Dynamic dynamic = kStatic);
  template <class Params>
  void node(uint32_t op, std::vector<uint32_t> src, uint32_t dst, Params params) {
    params.struct_size = sizeof params;
    add_node(op, std::move(src), dst, &params, sizeof params);
  }
  void node(uint32_t op, std::vector<uint32_t> src, uint32_t dst) {
    add_node(op, std::move(src), dst, nullptr, 0);
  }
  /// Returns the index that KV_STORE and ATTENTION name.
  uint32_t kv(const minfer_kv_desc& desc);

  /// The ABI's view of it; valid until the split changes.
  const minfer_split* abi();

  std::vector<minfer_tensor> tensors;
  std::vector<minfer_node> nodes;
  std::vector<minfer_kv_desc> regions;
  std::vector<std::pair<uint32_t, const Weight*>> weights;  ///< tensor, weight
  minfer_capacity capacity = {};
  uint64_t model = 1;

 private:
  uint32_t add(uint32_t type, Dims dims, uint32_t kind, uint32_t flags, Dynamic dynamic);
  void add_node(uint32_t op, std::vector<uint32_t> src, uint32_t dst, const void* params,
                size_t bytes);

  std::vector<std::unique_ptr<std::vector<uint32_t>>> sources_;
  std::vector<std::unique_ptr<std::vector<uint8_t>>> params_;
  std::vector<std::unique_ptr<std::string>> names_;
  minfer_split abi_ = {};
};

uint64_t span_bytes(const minfer_tensor& tensor);

/// Imported weights, one unit. Counts releases.
class Weights {
 public:
  Weights(Device& device, Split& split);
  ~Weights();
  Weights(const Weights&) = delete;
  Weights& operator=(const Weights&) = delete;

  std::map<uint64_t, int> releases;  ///< per weight id
  uint64_t promised_bytes = 0;       ///< what weights_size said

 private:
  minfer_weights* handle_ = nullptr;
};

/// What `supports` says of a split.
minfer_verdict ask_support(Device& device, Split& split);

struct Counts {
  uint32_t tokens = 1, seqs = 1, outs = 1, max_kv_len = 0;
};

/// A split made runnable: weights imported, compiled, memory bound. Throws Refused when the device
/// does not support it.
class Session {
 public:
  /// `as`: what is compiled instead of `split`; another form of the same graph.
  Session(Device& device, Split& split, const minfer_split* as = nullptr);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  template <class T>
  void set(uint32_t tensor, const std::vector<T>& values) {
    write(tensor, values.data(), values.size() * sizeof(T));
  }
  /// Poisons outputs, workspace and nothing else, runs, waits, and checks every guard band.
  void run(const Counts& counts, uint32_t flags = 0);
  /// The tensor's memory as it lies, from its first byte to its last.
  template <class T>
  std::vector<T> get(uint32_t tensor) {
    std::vector<T> values(memory_.at(tensor)->bytes / sizeof(T));
    memory_.at(tensor)->read(0, values.data(), values.size() * sizeof(T));
    return values;
  }
  /// Gives every tensor and the workspace other memory and binds the plan to it. What was set is
  /// lost.
  void move();
  std::string label(uint32_t node);
  Memory& memory(uint32_t tensor) { return *memory_.at(tensor); }
  Memory& region(uint32_t kv) { return *regions_[kv]; }
  minfer_plan* plan() { return plan_; }
  minfer_plan_info info() const { return info_; }

 private:
  void write(uint32_t tensor, const void* data, uint64_t bytes);
  void bind();

  Device& device_;
  Split& split_;
  std::unique_ptr<Weights> weights_;
  minfer_plan* plan_ = nullptr;
  minfer_plan_info info_ = {};
  std::map<uint32_t, std::unique_ptr<Memory>> memory_;
  std::vector<std::unique_ptr<Memory>> regions_;
  std::unique_ptr<Memory> workspace_;
  uint64_t generation_ = 0;
};

/// ‖out − ref‖ / ‖ref‖; infinity when a value is not finite where the reference is. `least_norm`
/// stands in for a smaller ‖ref‖, where few outputs may cancel by chance.
double relative_error(const std::vector<float>& out, const std::vector<double>& ref,
                      double least_norm = 0.0);

}  // namespace conformance
