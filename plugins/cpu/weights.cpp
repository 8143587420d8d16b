// Checking, sizing and packing of weight units.
#include "weights.h"

#include <algorithm>
#include <cstring>

#include "abi_read.h"
#include "minfer/quant_blocks.h"
#include "thread_pool.h"

namespace minfer_cpu {
namespace {

long long show(int64_t value) {
  return static_cast<long long>(value);
}

const char* name_of(const minfer_weight& weight) {
  return weight.name != nullptr ? weight.name : "(unnamed)";
}

// File bytes of one row.
uint64_t row_bytes(const minfer_weight& weight) {
  return static_cast<uint64_t>(weight.ne[0] / minfer_type_values(weight.type)) *
         minfer_type_bytes(weight.type);
}

int64_t matrices(const minfer_weight& weight) {
  return weight.ne[2] * weight.ne[3];
}

// Throws unless the file range is what type and dimensions say and lies within the mapping.
void check_weight(const minfer_weight& weight) {
  const uint32_t values = minfer_type_values(weight.type);
  if (values == 0 || weight.type == MINFER_TYPE_I32 || weight.type == MINFER_TYPE_I64) {
    throw Failure(MINFER_UNSUPPORTED, "weight %s: type %u is not a weight type of this plugin",
                  name_of(weight), weight.type);
  }
  int64_t elements = 1;
  for (int64_t n : weight.ne) {
    if (n < 1 || __builtin_mul_overflow(elements, n, &elements) || elements > (int64_t{1} << 56)) {
      throw Failure(MINFER_INVALID, "weight %s: dimensions [%lld, %lld, %lld, %lld]",
                    name_of(weight), show(weight.ne[0]), show(weight.ne[1]), show(weight.ne[2]),
                    show(weight.ne[3]));
    }
  }
  if (weight.ne[0] % values != 0) {
    throw Failure(MINFER_INVALID, "weight %s: rows of %lld, but %s has blocks of %u",
                  name_of(weight), show(weight.ne[0]), minfer_type_name(weight.type), values);
  }
  const uint64_t expected = row_bytes(weight) * static_cast<uint64_t>(elements / weight.ne[0]);
  if (weight.bytes != expected) {
    throw Failure(MINFER_INVALID, "weight %s: %llu bytes given, its type and shape take %llu",
                  name_of(weight), static_cast<unsigned long long>(weight.bytes),
                  static_cast<unsigned long long>(expected));
  }
  if (weight.mapping != nullptr && (weight.offset > weight.mapping_bytes ||
                                    weight.bytes > weight.mapping_bytes - weight.offset)) {
    throw Failure(MINFER_INVALID, "weight %s: its bytes end past the mapping of %llu bytes",
                  name_of(weight), static_cast<unsigned long long>(weight.mapping_bytes));
  }
}

}  // namespace

/// One form to be made.
struct WeightStore::Job {
  Key key;
  minfer_weight weight;
  const MatmulKernel* kernel;  // NULL: plain
  uint64_t matrix_bytes;
  uint64_t offset;  // in the unit's allocation

  uint64_t bytes() const { return matrix_bytes * static_cast<uint64_t>(matrices(weight)); }
};

FormRef WeightStore::find(const Key& key) const {
  const std::lock_guard lock(mutex_);
  const auto found = forms_.find(key);
  return found == forms_.end() ? nullptr : found->second.lock();
}

FormRef WeightStore::find_packed(uint64_t model, uint64_t id) const {
  return find({model, id, false});
}

FormRef WeightStore::find_plain(uint64_t model, uint64_t id) const {
  return find({model, id, true});
}

// Lists the forms to be made and the live ones to be shared.
std::vector<WeightStore::Job> WeightStore::plan_import(const minfer_weight_unit* unit, Isa isa,
                                                       uint64_t* bytes,
                                                       std::vector<FormRef>* shared) const {
  const auto raw = read_struct<minfer_weight_unit>(unit, "minfer_weight_unit");
  if (raw.n_weights > 0 && (raw.weights == nullptr || raw.weight_stride < sizeof(uint32_t))) {
    throw Failure(MINFER_INVALID, "weight unit: %u weights at %p with a stride of %u",
                  raw.n_weights, static_cast<const void*>(raw.weights), raw.weight_stride);
  }
  std::vector<Job> jobs;
  *bytes = 0;
  auto add = [&](const minfer_weight& weight, bool plain) {
    const Key key{raw.model, weight.id, plain};
    const auto same = [&](const Job& job) { return job.key == key; };
    if (std::any_of(jobs.begin(), jobs.end(), same)) return;
    if (FormRef live = find(key)) {
      if (shared != nullptr) shared->push_back(std::move(live));
      return;
    }
    Job job{key, weight, nullptr, 0, *bytes};
    if (plain) {
      job.matrix_bytes = static_cast<uint64_t>(weight.ne[0] * weight.ne[1]) * sizeof(float);
    } else {
      job.kernel = find_matmul(weight.type, weight.ne[0], weight.ne[1], isa);
      if (job.kernel == nullptr) {
        throw Failure(MINFER_UNSUPPORTED, "weight %s: no kernel for %s", name_of(weight),
                      minfer_type_name(weight.type));
      }
      job.matrix_bytes = align_up(job.kernel->packed_bytes(weight.ne[0], weight.ne[1]));
    }
    *bytes += align_up(job.bytes());
    jobs.push_back(job);
  };
  for (uint32_t i = 0; i < raw.n_weights; ++i) {
    const auto weight =
        read_struct<minfer_weight>(element(raw.weights, raw.weight_stride, i), "minfer_weight");
    check_weight(weight);
    if ((weight.uses & (MINFER_USE_MATMUL | MINFER_USE_GATHER)) != 0) add(weight, false);
    if ((weight.uses & MINFER_USE_PLAIN) != 0) add(weight, true);
  }
  return jobs;
}

uint64_t WeightStore::import_bytes(const minfer_weight_unit* unit, Isa isa) const {
  uint64_t bytes = 0;
  plan_import(unit, isa, &bytes, nullptr);
  return bytes;
}

namespace {

// Converts one form, in parallel over ranges of rows.
void fill_form(const minfer_weight& weight, const MatmulKernel* kernel, uint64_t matrix_bytes,
               uint8_t* out, ThreadPool& pool) {
  constexpr int64_t kRowsPerTask = 64;
  const uint8_t* file = weight.mapping + weight.offset;
  const int64_t id = weight.ne[0], od = weight.ne[1];
  const uint64_t file_row = row_bytes(weight);
  const int64_t group = kernel != nullptr ? kernel->row_group : 1;
  // At most kMaxTasks tasks, each a multiple of the row group.
  const int64_t total = (od + kRowsPerTask - 1) / kRowsPerTask * matrices(weight);
  const int64_t scale = (total + kMaxTasks - 1) / kMaxTasks;
  const int64_t step = (kRowsPerTask * scale + group - 1) / group * group;
  const int64_t per_matrix = (od + step - 1) / step;
  parallel_for(pool, per_matrix * matrices(weight), [&](int64_t task, unsigned) {
    const int64_t matrix = task / per_matrix;
    const int64_t row0 = task % per_matrix * step;
    const int64_t row1 = std::min(od, row0 + step);
    const uint8_t* from = file + static_cast<uint64_t>(matrix * od) * file_row;
    uint8_t* to = out + static_cast<uint64_t>(matrix) * matrix_bytes;
    const uint8_t* rows = from + static_cast<uint64_t>(row0) * file_row;
    if (kernel == nullptr) {
      minfer_dequantize_row(weight.type, rows, (row1 - row0) * id,
                            reinterpret_cast<float*>(to) + row0 * id);
    } else if (kernel->pack == nullptr) {
      std::memcpy(to + static_cast<uint64_t>(row0) * file_row, rows,
                  static_cast<uint64_t>(row1 - row0) * file_row);
    } else {
      kernel->pack(from, id, od, row0, row1, to);
    }
  });
}

}  // namespace

std::vector<FormRef> WeightStore::import(const minfer_weight_unit* unit, Isa isa,
                                         MemoryCounter& memory, ThreadPool& pool) {
  uint64_t bytes = 0;
  std::vector<FormRef> forms;
  std::vector<Job> jobs = plan_import(unit, isa, &bytes, &forms);
  for (const Job& job : jobs) {
    if (job.weight.mapping == nullptr) {
      throw Failure(MINFER_INVALID, "weight %s: its mapping is NULL", name_of(job.weight));
    }
  }
  const auto block = std::make_shared<const Allocation>(memory, bytes, "a unit's weights");
  for (const Job& job : jobs) {
    uint8_t* data = block->data() + job.offset;
    fill_form(job.weight, job.kernel, job.matrix_bytes, data, pool);
    auto form = std::make_shared<WeightForm>();
    form->kernel = job.kernel;
    form->data = data;
    form->matrix_bytes = job.matrix_bytes;
    form->type = job.weight.type;
    std::copy(job.weight.ne, job.weight.ne + 4, form->ne);
    form->memory = block;
    forms.push_back(std::move(form));
  }
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(forms_, [](const auto& entry) { return entry.second.expired(); });
    for (size_t i = 0; i < jobs.size(); ++i) {
      forms_[jobs[i].key] = forms[forms.size() - jobs.size() + i];
    }
  }
  const auto raw = read_struct<minfer_weight_unit>(unit, "minfer_weight_unit");
  for (uint32_t i = 0; i < raw.n_weights && raw.release != nullptr; ++i) {
    const auto weight =
        read_struct<minfer_weight>(element(raw.weights, raw.weight_stride, i), "minfer_weight");
    raw.release(raw.release_ctx, weight.id);
  }
  return forms;
}

}  // namespace minfer_cpu
