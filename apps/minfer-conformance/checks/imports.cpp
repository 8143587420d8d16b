// Weights: each is released exactly once, not read after that, counted to the byte, and shared by
// imports of the same model.
//
// The bytes lie in pages of their own that become unreadable at the release, as they do when the
// core drops the pages of a file: a plugin that still reads them crashes here instead of at a
// user's.
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <mutex>

#include "checks.h"

namespace conformance {
namespace {

/// A file in memory: each weight starts at a page, at an odd multiple of 32 bytes within it.
class Mapping {
 public:
  explicit Mapping(const std::vector<const Weight*>& weights) {
    const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
    for (const Weight* weight : weights) {
      places_.push_back({size_ + 32, size_, 0});
      size_ += (weight->file.size() + 32 + page - 1) / page * page;
      places_.back().end = size_;
    }
    void* memory =
        ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::runtime_error("no memory for the weights");
    bytes_ = static_cast<uint8_t*>(memory);
    for (size_t i = 0; i < weights.size(); ++i) {
      std::memcpy(bytes_ + places_[i].data, weights[i]->file.data(), weights[i]->file.size());
      minfer_weight w{};
      w.struct_size = sizeof w;
      w.type = weights[i]->type;
      w.uses = w.type == MINFER_TYPE_F32 && weights[i]->ne[1] == 1 ? MINFER_USE_PLAIN
                                                                   : MINFER_USE_MATMUL;
      w.id = 10 + i;
      for (int axis = 0; axis < 4; ++axis) w.ne[axis] = weights[i]->ne[axis];
      w.mapping = bytes_;
      w.mapping_bytes = size_;
      w.offset = places_[i].data;
      w.bytes = weights[i]->file.size();
      w.name = "weight";
      list_.push_back(w);
    }
    ::mprotect(bytes_, size_, PROT_READ);
  }
  ~Mapping() { ::munmap(bytes_, size_); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  minfer_weight_unit unit() {
    minfer_weight_unit unit{};
    unit.struct_size = sizeof unit;
    unit.n_weights = static_cast<uint32_t>(list_.size());
    unit.weight_stride = sizeof(minfer_weight);
    unit.weights = list_.data();
    unit.model = 5;
    unit.release = [](void* ctx, uint64_t id) { static_cast<Mapping*>(ctx)->release(id); };
    unit.release_ctx = this;
    return unit;
  }

  void expect_released(int times, const std::string& when) {
    const std::lock_guard lock(mutex_);
    for (const minfer_weight& w : list_)
      expect_equal(releases_[w.id], times, fmt::format("releases of weight {} {}", w.id, when));
    expect_equal(releases_.size(), list_.size(), "weights that were released");
  }
  int releases() {
    const std::lock_guard lock(mutex_);
    int sum = 0;
    for (const auto& [id, n] : releases_) sum += n;
    return sum;
  }

 private:
  struct Place {
    uint64_t data, begin, end;
  };

  void release(uint64_t id) {
    const std::lock_guard lock(mutex_);
    ++releases_[id];
    if (id < 10 || id >= 10 + places_.size()) return;
    const Place& place = places_[id - 10];
    ::mprotect(bytes_ + place.begin, place.end - place.begin, PROT_NONE);
  }

  std::vector<Place> places_;
  std::vector<minfer_weight> list_;
  uint8_t* bytes_ = nullptr;
  uint64_t size_ = 0;
  std::mutex mutex_;
  std::map<uint64_t, int> releases_;
};

uint64_t held(Bench& bench) {
  minfer_memory memory{};
  memory.struct_size = sizeof memory;
  MINFER_CALL(device_memory, bench.device.handle, &memory);
  expect(memory.peak >= memory.held, "the peak is less than what is held");
  return memory.held;
}

void import_and_free(Bench& bench, Mapping& mapping) {
  const minfer_weight_unit unit = mapping.unit();
  const uint64_t before = held(bench);
  uint64_t promised = 0;
  MINFER_CALL(weights_size, bench.device.handle, &unit, &bench.device.gates, &promised);
  expect_equal(mapping.releases(), 0, "releases by weights_size");
  minfer_weights* weights = nullptr;
  MINFER_CALL(weights_import, bench.device.handle, &unit, &bench.device.gates, &weights);
  expect_equal(held(bench) - before, promised, "bytes held, against those promised");
  const bool copied = mapping.releases() > 0;
  if (copied) mapping.expect_released(1, "after the import");
  plugin().weights_free(weights);
  mapping.expect_released(1, "after weights_free");
  expect_equal(held(bench), before, "bytes held after weights_free");
}

/// A second import of what is held: nothing more is held, and its ranges are released too.
void import_twice(Bench& bench, Mapping& first, Mapping& second) {
  const minfer_weight_unit one = first.unit(), two = second.unit();
  minfer_weights *a = nullptr, *b = nullptr;
  const uint64_t before = held(bench);
  MINFER_CALL(weights_import, bench.device.handle, &one, &bench.device.gates, &a);
  const uint64_t once = held(bench);
  uint64_t promised = 1;
  MINFER_CALL(weights_size, bench.device.handle, &two, &bench.device.gates, &promised);
  expect_equal(promised, uint64_t{0}, "bytes promised for a second import of the same model");
  MINFER_CALL(weights_import, bench.device.handle, &two, &bench.device.gates, &b);
  expect_equal(held(bench), once, "bytes held after the second import");
  plugin().weights_free(a);
  plugin().weights_free(b);
  first.expect_released(1, "after both were freed");
  second.expect_released(1, "after both were freed");
  expect_equal(held(bench), before, "bytes held after both were freed");
}

/// Results from weights whose file has gone.
void run_without_file(Bench& bench) {
  Split split(2);
  const Weight weight = random_weight(bench.rng, MINFER_TYPE_F32, 64, 8);
  const uint32_t w = split.weight(weight, MINFER_USE_MATMUL);
  split.tensors[w].weight_id = 10;
  const uint32_t x = split.input(MINFER_TYPE_F32, {64, 2});
  const uint32_t out = split.output(MINFER_TYPE_F32, {8, 2});
  split.node(MINFER_OP_MATMUL, {w, x}, out);
  split.model = 5;
  const auto mapping = std::make_unique<Mapping>(std::vector<const Weight*>{&weight});
  const minfer_weight_unit unit = mapping->unit();
  minfer_weights* weights = nullptr;
  MINFER_CALL(weights_import, bench.device.handle, &unit, &bench.device.gates, &weights);
  {
    // The session's own import of the same id shares what is held.
    Session session(bench.device, split);
    const auto values = random_floats(bench.rng, 128);
    session.set(x, values);
    session.run({2, 1, 1, 0});
    std::vector<double> ref;
    for (size_t t = 0; t < 2; ++t) {
      for (int64_t o = 0; o < 8; ++o) {
        double sum = 0;
        for (size_t i = 0; i < 64; ++i) sum += double{weight.row(o)[i]} * values[t * 64 + i];
        ref.push_back(sum);
      }
    }
    expect_below(relative_error(session.get<float>(out), ref), 1e-5);
  }
  plugin().weights_free(weights);
}

}  // namespace

void check_imports(Bench& bench) {
  for (const uint32_t type : kWeightTypes) {
    variant(minfer_type_name(type), [&] {
      const Weight matrix = random_weight(bench.rng, type, 512, 24);
      const Weight plain = f32_weight(random_floats(bench.rng, 40), 40);
      Split split(1);
      const uint32_t w = split.weight(matrix, MINFER_USE_MATMUL);
      split.node(MINFER_OP_MATMUL, {w, split.input(MINFER_TYPE_F32, {512})},
                 split.output(MINFER_TYPE_F32, {24}));
      const minfer_verdict verdict = ask_support(bench.device, split);
      if (verdict.supported != 1) throw Refused(verdict.reason);
      Mapping one({&matrix, &plain}), two({&matrix, &plain}), three({&matrix, &plain});
      import_and_free(bench, one);
      import_twice(bench, two, three);
    });
  }
  variant("a run after the release", [&] { run_without_file(bench); });
}

}  // namespace conformance
