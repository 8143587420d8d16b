// Binding: from buffers and offsets to addresses, each held against what the plan will touch.
#include <algorithm>

#include "abi_read.h"
#include "failure.h"
#include "kv_pages.h"
#include "matmul_step.h"
#include "plan.h"

minfer_plan::minfer_plan() = default;
minfer_plan::~minfer_plan() = default;

namespace minfer_cpu {
namespace {

unsigned long long show(uint64_t value) {
  return static_cast<unsigned long long>(value);
}

uint8_t* address(const minfer_buffer* buffer, uint64_t offset, uint64_t bytes, const char* what) {
  if (buffer == nullptr) throw Failure(MINFER_INVALID, "bind: %s has no buffer", what);
  if (offset % kAlignment != 0 || offset > buffer->memory.bytes() ||
      bytes > buffer->memory.bytes() - offset) {
    throw Failure(
        MINFER_INVALID,
        "bind: %s needs %llu bytes at a multiple of %llu; offset %llu of a buffer of %llu "
        "was given",
        what, show(bytes), show(kAlignment), show(offset), show(buffer->memory.bytes()));
  }
  return buffer->memory.data() + offset;
}

class Binder {
 public:
  Binder(minfer_plan& plan, const minfer_bindings& raw) : plan_(plan), raw_(raw) {}

  void bind() {
    const size_t n = plan_.graph.tensors.size();
    data_.assign(n, nullptr);
    forms_.assign(n, nullptr);
    find_workspace();
    find_tensors();
    check_overlaps();
    find_weights();
    find_regions();
    resolve_views();
    // Nothing can fail from here on: a plan that was bound before stays so until now.
    plan_.data = std::move(data_);
    plan_.forms = std::move(forms_);
    plan_.owned_forms = std::move(owned_);
    plan_.kv = std::move(kv_);
    plan_.kv_pages = std::move(kv_pages_);
    plan_.workspace = workspace_;
    plan_.is_bound = true;
  }

 private:
  const Tensor& tensor(uint32_t index) const { return plan_.graph.tensors[index]; }

  void find_workspace() {
    if (plan_.workspace_bytes > 0) {
      workspace_ =
          address(raw_.workspace, raw_.workspace_offset, plan_.workspace_bytes, "the workspace");
    }
    for (uint32_t index : plan_.in_workspace) data_[index] = workspace_ + plan_.offsets[index];
  }

  void find_tensors() {
    for (uint32_t i = 0; i < raw_.n_bindings; ++i) {
      const minfer_binding& binding = raw_.bindings[i];
      if (binding.tensor >= data_.size()) {
        throw Failure(MINFER_INVALID, "bind: tensor %u, the split has %zu", binding.tensor,
                      data_.size());
      }
      const Tensor& t = tensor(binding.tensor);
      const bool wanted =
          std::find(plan_.bound.begin(), plan_.bound.end(), binding.tensor) != plan_.bound.end();
      if (!wanted) continue;  // a view, or something that this plan never touches
      data_[binding.tensor] = address(binding.buffer, binding.offset,
                                      static_cast<uint64_t>(t.span_bytes), t.name.c_str());
    }
    for (uint32_t index : plan_.bound) {
      if (data_[index] == nullptr && tensor(index).span_bytes > 0) {
        throw Failure(MINFER_INVALID, "bind: tensor %s is not bound", tensor(index).name.c_str());
      }
    }
  }

  // Two bound tensors may share bytes only if neither is written, or if one has been read for the
  // last time before the other is written for the first.
  void check_overlaps() {
    std::vector<uint32_t> order = plan_.bound;
    std::sort(order.begin(), order.end(),
              [&](uint32_t a, uint32_t b) { return data_[a] < data_[b]; });
    for (size_t i = 0; i < order.size(); ++i) {
      const uint8_t* end = data_[order[i]] + tensor(order[i]).span_bytes;
      for (size_t j = i + 1; j < order.size() && data_[order[j]] < end; ++j) {
        if (tensor(order[i]).span_bytes > 0 && tensor(order[j]).span_bytes > 0) {
          check_pair(order[i], order[j]);
        }
      }
    }
  }

  void check_pair(uint32_t a, uint32_t b) const {
    const Lifetime& x = plan_.life[a];
    const Lifetime& y = plan_.life[b];
    if (!x.written && !y.written) return;
    if (!x.written && x.last < y.first) return;
    if (!y.written && y.last < x.first) return;
    throw Failure(MINFER_INVALID, "bind: tensors %s and %s share memory while both are needed",
                  tensor(a).name.c_str(), tensor(b).name.c_str());
  }

  void find_weights() {
    const WeightStore& store = plan_.device->weights;
    for (uint32_t index : plan_.plain) {
      FormRef form = store.find_plain(plan_.graph.model, tensor(index).weight_id);
      check_form(index, form.get(), "elementwise use");
      data_[index] = const_cast<uint8_t*>(form->data);
      owned_.push_back(std::move(form));
    }
    for (uint32_t index : plan_.packed) {
      FormRef form = store.find_packed(plan_.graph.model, tensor(index).weight_id);
      check_form(index, form.get(), "matmul or gather");
      if (form->kernel != plan_.kernels[index]) {
        throw Failure(MINFER_INVALID,
                      "bind: weight %s was imported for kernel %s, the plan was compiled for %s: "
                      "gate MINFER_CPU_ISA must not change in between",
                      tensor(index).name.c_str(), form->kernel->label, plan_.kernels[index]->label);
      }
      forms_[index] = form.get();
      owned_.push_back(std::move(form));
    }
  }

  void check_form(uint32_t index, const WeightForm* form, const char* use) const {
    const Tensor& t = tensor(index);
    if (form == nullptr) {
      throw Failure(MINFER_INVALID, "bind: weight %s (id %llu) was not imported for %s",
                    t.name.c_str(), show(t.weight_id), use);
    }
    if (form->type != t.type || !std::equal(t.ne, t.ne + 4, form->ne)) {
      throw Failure(MINFER_INVALID,
                    "bind: weight %s was imported with another type or shape than %s",
                    t.name.c_str(), shape_text(t).c_str());
    }
  }

  void find_regions() {
    for (size_t i = 0; i < plan_.graph.kv.size(); ++i) {
      const KvLayout layout(plan_.graph.kv[i]);
      const minfer_buffer* buffer = raw_.kv != nullptr ? raw_.kv[i] : nullptr;
      const auto bytes = static_cast<uint64_t>(layout.n_pages * layout.page_bytes);
      kv_.push_back(address(buffer, 0, bytes, "a KV region"));
      kv_pages_.push_back(static_cast<int64_t>(buffer->memory.bytes()) / layout.page_bytes);
    }
  }

  void resolve_views() {
    for (uint32_t i = 0; i < data_.size(); ++i) {
      const Tensor& t = tensor(i);
      if (t.owner != i && data_[t.owner] != nullptr) data_[i] = data_[t.owner] + t.view_offset;
    }
  }

  minfer_plan& plan_;
  const minfer_bindings& raw_;
  std::vector<uint8_t*> data_;
  std::vector<const WeightForm*> forms_;
  std::vector<FormRef> owned_;
  std::vector<uint8_t*> kv_;
  std::vector<int64_t> kv_pages_;
  uint8_t* workspace_ = nullptr;
};

}  // namespace

void bind_plan(minfer_plan& plan, const minfer_bindings* bindings) {
  const auto raw = read_struct<minfer_bindings>(bindings, "minfer_bindings");
  if (raw.n_bindings > 0 && raw.bindings == nullptr) {
    throw Failure(MINFER_INVALID, "bind: %u bindings at NULL", raw.n_bindings);
  }
  Binder(plan, raw).bind();
}

}  // namespace minfer_cpu
