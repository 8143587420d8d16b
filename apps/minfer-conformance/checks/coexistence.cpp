// Another plugin in the same process: results stay the same bits while it is loaded, used and
// closed. What goes wrong here: symbols that bind across libraries, global state of a shared
// run-time library, signal handlers, the floating-point environment.
#include <dlfcn.h>
#include <stdlib.h>

#include <cstring>

#include "checks.h"
#include "layer.h"
#include "minfer/plugin_host.h"

namespace conformance {
namespace {

namespace fs = std::filesystem;

/// A copy of the plugin under another name: the loader takes it for another library.
class Copy {
 public:
  explicit Copy(const fs::path& of) {
    std::string folder = (fs::temp_directory_path() / "minfer-conformance-XXXXXX").string();
    if (::mkdtemp(folder.data()) == nullptr) throw std::runtime_error("no temporary folder");
    folder_ = folder;
    fs::copy_file(of, path());
  }
  ~Copy() {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }
  Copy(const Copy&) = delete;
  Copy& operator=(const Copy&) = delete;
  fs::path path() const { return folder_ / "second.so"; }

 private:
  fs::path folder_;
};

/// An installed plugin that is another backend; empty when there is none.
fs::path find_second() {
  const auto host = minfer::PluginHost::load({});
  if (!host) return {};
  for (const minfer::PluginInfo& info : (*host)->plugins())
    if (info.backend != plugin().backend) return info.path;
  return {};
}

const minfer_plugin* load_second(const fs::path& path) {
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error(::dlerror());
  void* symbol = ::dlsym(library, MINFER_QUERY_SYMBOL);
  if (symbol == nullptr) throw std::runtime_error(::dlerror());
  minfer_plugin_query_fn query;
  std::memcpy(&query, &symbol, sizeof query);
  const minfer_plugin* table = nullptr;
  minfer_error error = {};
  require_ok(query(&host(), &table, &error), error, "the second plugin's query");
  return table;
}

/// Device, queue and buffer of the second plugin, while it has one.
class Second {
 public:
  explicit Second(const minfer_plugin& table) : table_(table) {
    minfer_error error = {};
    uint32_t n = 0;
    require_ok(table.device_enumerate(nullptr, 0, 0, &n, &error), error, "its device_enumerate");
    if (n == 0) return;
    for (uint32_t i = 0; i < table.n_gates; ++i) {
      values_.push_back(
          reinterpret_cast<const minfer_gate*>(reinterpret_cast<const char*>(table.gates) +
                                               size_t{i} * table.gate_stride)
              ->default_value);
    }
    const minfer_gate_values gates{sizeof gates, table.n_gates, values_.data()};
    if (table.device_open(0, &gates, &device_, &error) != MINFER_OK) {
      device_ = nullptr;
      return;
    }
    require_ok(table.queue_create(device_, &queue_, &error), error, "its queue_create");
    require_ok(table.buffer_alloc(device_, 4096, &buffer_, &error), error, "its buffer_alloc");
  }
  ~Second() {
    if (device_ == nullptr) return;
    if (buffer_ != nullptr) table_.buffer_free(buffer_);
    if (queue_ != nullptr) table_.queue_destroy(queue_);
    table_.device_close(device_);
  }
  Second(const Second&) = delete;
  Second& operator=(const Second&) = delete;

  bool has_device() const { return device_ != nullptr; }
  void use(uint8_t byte) {
    if (device_ == nullptr) return;
    minfer_error error = {};
    std::vector<uint8_t> to(4096, byte), from(4096, 0);
    require_ok(table_.buffer_write(queue_, buffer_, 0, to.data(), to.size(), &error), error,
               "its buffer_write");
    require_ok(table_.buffer_read(queue_, buffer_, 0, from.data(), from.size(), &error), error,
               "its buffer_read");
    require_ok(table_.queue_wait(queue_, &error), error, "its queue_wait");
    expect(to == from, "the second plugin reads what it did not write");
  }

 private:
  const minfer_plugin& table_;
  std::vector<int64_t> values_;
  minfer_device* device_ = nullptr;
  minfer_queue* queue_ = nullptr;
  minfer_buffer* buffer_ = nullptr;
};

}  // namespace

void check_coexistence(const Target& target) {
  Device device;
  std::mt19937_64 rng = seeded_rng("coexistence");
  Layer layer(rng);
  Session session(device, layer.split);
  const auto run = [&] {
    layer.fill(session);
    session.run(Layer::kStep);
    return session.get<float>(layer.logits);
  };
  const auto alone = run();
  fs::path path = target.second.empty() ? find_second() : target.second;
  std::unique_ptr<Copy> copy;
  if (path.empty()) {
    copy = std::make_unique<Copy>(target.plugin);
    path = copy->path();
  }
  const minfer_plugin* table = load_second(path);
  expect_equal(run(), alone, "results once the second plugin is loaded");
  {
    Second second(*table);
    listener().note(fmt::format("beside {} ({}{})", table->backend, path.filename().string(),
                                second.has_device() ? "" : ", which has no device"));
    for (int i = 0; i < 10; ++i) {
      second.use(static_cast<uint8_t>(i));
      if (!expect_equal(run(), alone, "results while the second plugin is used")) return;
    }
  }
  expect_equal(run(), alone, "results after the second plugin's device was closed");
}

}  // namespace conformance
