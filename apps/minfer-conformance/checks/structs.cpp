// Structs of hosts that are older or newer than the plugin: it writes no byte beyond struct_size,
// reads no field beyond it, and fills every field within it.
//
// What this protects: a field that is appended to a struct later must not break plugins that exist.
#include <array>
#include <cstring>

#include "checks.h"
#include "layer.h"

namespace conformance {
namespace {

constexpr uint32_t kMore = 24;  ///< bytes that a later host's structs have more

/// A struct of this header with room behind it for what a later one may have.
template <class T>
struct Later {
  T value;
  std::array<uint8_t, kMore> tail;

  explicit Later(uint8_t fill) {
    std::memset(static_cast<void*>(this), fill, sizeof *this);
    value.struct_size = sizeof *this;
  }
};

/// Has `call` fill structs of every size and with two kinds of bytes in them before. `text` puts
/// what was written into words, which must not depend on the bytes before.
template <class T, class Call, class Text>
void check_output(const char* name, Call call, Text text) {
  variant(name, [&] {
    for (uint32_t size = sizeof(uint32_t); size <= sizeof(T) + kMore; size += 4) {
      Later<T> it(0x5a);
      it.value.struct_size = size;
      call(it);
      const auto* bytes = reinterpret_cast<const uint8_t*>(&it);
      // A plugin of a later minor may know what lies behind this header's struct.
      const bool is_later = plugin().abi_minor > MINFER_ABI_MINOR;
      const uint32_t known = is_later ? size : std::min<uint32_t>(size, sizeof(T));
      for (uint32_t i = known; i < sizeof it; ++i) {
        if (expect(bytes[i] == 0x5a,
                   fmt::format("struct_size is {}, and byte {} was written", size, i)))
          continue;
        return;
      }
      expect_equal(it.value.struct_size, size, "struct_size after the call");
    }
    Later<T> first(0x5a), second(0xa5);
    first.value.struct_size = second.value.struct_size = sizeof(T);
    call(first);
    call(second);
    expect_equal(text(first.value), text(second.value),
                 "fields that are not written, seen in a second call");
  });
}

std::string words(const char* text) {
  return text == nullptr ? "none" : text;
}

void check_outputs(Bench& bench) {
  const uint32_t index = settings().device;
  check_output<minfer_device_info>(
      "minfer_device_info",
      [&](Later<minfer_device_info>& out) {
        std::vector<Later<minfer_device_info>> all(index + 1, Later<minfer_device_info>(0x5a));
        all[index] = out;
        uint32_t n = 0;
        MINFER_CALL(device_enumerate, &all[0].value, sizeof all[0], index + 1, &n);
        out = all[index];
      },
      [](const minfer_device_info& i) {
        return fmt::format("{} {} {} {} {} {} {} {} {}", i.kind, i.score, i.host_accessible,
                           words(i.name), words(i.details), words(i.reason), i.memory_total,
                           i.buffer_alignment, i.max_buffer_bytes);
      });
  check_output<minfer_memory>(
      "minfer_memory",
      [&](Later<minfer_memory>& out) {
        MINFER_CALL(device_memory, bench.device.handle, &out.value);
      },
      [](const minfer_memory& m) {
        return fmt::format("{} {} {} {}", m.total, m.held, m.peak, m.overhead);
      });
}

void check_plan_outputs(Bench& bench, Layer& layer, Session& session) {
  check_output<minfer_verdict>(
      "minfer_verdict",
      [&](Later<minfer_verdict>& out) {
        MINFER_CALL(supports, bench.device.handle, layer.split.abi(), &bench.device.gates,
                    &out.value);
      },
      [](const minfer_verdict& v) {
        return fmt::format("{} {} {} {}", v.supported, v.node, v.tensor,
                           std::string(v.reason, strnlen(v.reason, sizeof v.reason)));
      });
  check_output<minfer_plan_info>(
      "minfer_plan_info",
      [&](Later<minfer_plan_info>& out) {
        minfer_plan* plan = nullptr;
        MINFER_CALL(plan_compile, bench.device.handle, layer.split.abi(), &bench.device.gates,
                    &plan, &out.value);
        plugin().plan_destroy(plan);
      },
      [](const minfer_plan_info& i) {
        return fmt::format("{} {} {}", i.n_launches, i.workspace_bytes, i.workspace_align);
      });
  check_output<minfer_node_report>(
      "minfer_node_report",
      [&](Later<minfer_node_report>& out) {
        MINFER_CALL(plan_describe, session.plan(), 0, &out.value);
      },
      [](const minfer_node_report& r) {
        return fmt::format("{} {} {}", r.fused_into,
                           std::string(r.kernel, strnlen(r.kernel, sizeof r.kernel)),
                           std::string(r.why, strnlen(r.why, sizeof r.why)));
      });
}

/// A copy of a split whose structs all have another size: `more` bytes of 0xff behind, or the last
/// fields cut off and poisoned.
class Resized {
 public:
  enum class Kind { kLarger, kSmaller };

  Resized(const minfer_split& split, Kind kind) : kind_(kind) {
    const auto cut = [&](size_t bytes) { return kind == Kind::kSmaller ? bytes : 0; };
    tensors_ = copies(split.tensors, split.n_tensors, cut(offsetof(minfer_tensor, name)));
    nodes_ = copies(split.nodes, split.n_nodes, cut(offsetof(minfer_node, name)));
    kv_ = copies(split.kv, split.n_kv, cut(offsetof(minfer_kv_desc, reserved)));
    capacity_ = copies(split.capacity, 1, 0);
    for (auto& node : nodes_) {
      if (node.value.params == nullptr) continue;
      params_.emplace_back(256, 0xff);
      uint32_t size;
      std::memcpy(&size, node.value.params, sizeof size);
      std::memcpy(params_.back().data(), node.value.params, size);
      if (kind == Kind::kLarger) size += kMore;
      std::memcpy(params_.back().data(), &size, sizeof size);
      node.value.params = params_.back().data();
    }
    split_ = copies(&split, 1, 0);
    minfer_split& out = split_[0].value;
    out.tensors = &tensors_[0].value;
    out.nodes = &nodes_[0].value;
    out.kv = &kv_[0].value;
    out.capacity = &capacity_[0].value;
    out.tensor_stride = sizeof tensors_[0];
    out.node_stride = sizeof nodes_[0];
    out.kv_stride = sizeof kv_[0];
  }

  const minfer_split* abi() const { return &split_[0].value; }

 private:
  template <class T>
  std::vector<Later<T>> copies(const T* from, uint32_t n, size_t cut) const {
    std::vector<Later<T>> out(n, Later<T>(0xff));
    for (uint32_t i = 0; i < n; ++i) {
      const size_t bytes = cut > 0 ? cut : sizeof(T);
      std::memcpy(static_cast<void*>(&out[i].value), &from[i], bytes);
      if (cut > 0) out[i].value.struct_size = static_cast<uint32_t>(cut);
      if (kind_ == Kind::kLarger) out[i].value.struct_size = sizeof out[i];
    }
    return out;
  }

  Kind kind_;
  std::vector<Later<minfer_tensor>> tensors_;
  std::vector<Later<minfer_node>> nodes_;
  std::vector<Later<minfer_kv_desc>> kv_;
  std::vector<Later<minfer_capacity>> capacity_;
  std::vector<Later<minfer_split>> split_;
  std::vector<std::vector<uint8_t>> params_;
};

void check_inputs(Bench& bench, Layer& layer, const std::vector<float>& expected) {
  for (const auto kind : {Resized::Kind::kLarger, Resized::Kind::kSmaller}) {
    variant(kind == Resized::Kind::kLarger ? "a larger split" : "a smaller split", [&] {
      const Resized split(*layer.split.abi(), kind);
      Session session(bench.device, layer.split, split.abi());
      layer.fill(session);
      Later<minfer_gate_values> gates(0xff);
      gates.value.n = bench.device.gates.n;
      gates.value.values = bench.device.gates.values;
      Later<minfer_run_args> args(0xff);
      args.value.flags = 0;
      args.value.n_tokens = Layer::kStep.tokens;
      args.value.n_seqs = Layer::kStep.seqs;
      args.value.n_outs = Layer::kStep.outs;
      args.value.max_kv_len = Layer::kStep.max_kv_len;
      args.value.gates = &gates.value;
      MINFER_CALL(plan_run, session.plan(), bench.device.queue, &args.value);
      MINFER_CALL(queue_wait, bench.device.queue);
      expect_equal(session.get<float>(layer.logits), expected, "logits");
    });
  }
}

void check_weight_unit(Bench& bench) {
  variant("a larger weight unit", [&] {
    const Weight weight = f32_weight(random_floats(bench.rng, 64), 64);
    std::vector<Later<minfer_weight>> list(2, Later<minfer_weight>(0xff));
    for (size_t i = 0; i < list.size(); ++i) {
      minfer_weight& w = list[i].value;
      w = {};
      w.struct_size = sizeof list[i];
      w.type = MINFER_TYPE_F32;
      w.uses = MINFER_USE_PLAIN;
      w.id = i;
      w.ne[0] = 64;
      w.ne[1] = w.ne[2] = w.ne[3] = 1;
      w.mapping = weight.file.data();
      w.mapping_bytes = w.bytes = weight.file.size();
      w.name = "w";
    }
    Later<minfer_weight_unit> unit(0xff);
    int releases = 0;
    unit.value.unit = 0;
    unit.value.n_weights = 2;
    unit.value.weight_stride = sizeof list[0];
    unit.value.weights = &list[0].value;
    unit.value.model = 77;
    unit.value.release = [](void* ctx, uint64_t) { ++*static_cast<int*>(ctx); };
    unit.value.release_ctx = &releases;
    minfer_weights* weights = nullptr;
    MINFER_CALL(weights_import, bench.device.handle, &unit.value, &bench.device.gates, &weights);
    plugin().weights_free(weights);
    expect_equal(releases, 2, "releases");
  });
}

}  // namespace

void check_structs(Bench& bench) {
  check_outputs(bench);
  check_weight_unit(bench);
  Layer layer(bench.rng);
  Session session(bench.device, layer.split);
  layer.fill(session);
  session.run(Layer::kStep);
  check_plan_outputs(bench, layer, session);
  check_inputs(bench, layer, session.get<float>(layer.logits));
}

}  // namespace conformance
