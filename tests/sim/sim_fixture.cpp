#include "sim_fixture.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <limits>

#include "minfer/log.h"
#include "tiny_models.h"

namespace minfer::testing {
namespace {

std::string device_to_test() {
  const char* device = std::getenv("MINFER_TEST_DEVICE");
  return device ? device : "";
}

/// The plugins to test with, found in the build's folder or an unpacked bundle: programs and
/// plugins lie alike in both.
std::vector<std::filesystem::path> plugin_files() {
  const auto top = std::filesystem::canonical("/proc/self/exe").parent_path().parent_path();
  const auto plugins = top / "lib" / "minfer" / "plugins";
  std::vector<std::filesystem::path> files = {plugins / "libminfer_cpu.so",
                                              top / "tests" / "plugins" / "libminfer_sim.so"};
  const std::string device = device_to_test();
  const std::string backend = device.substr(0, device.find(':'));
  if (!backend.empty() && backend != "cpu")
    files.push_back(plugins / ("libminfer_" + backend + ".so"));
  return files;
}

}  // namespace

std::vector<Layout> all_layouts() {
  std::vector<Layout> layouts = {
      {"cpu", {"cpu"}},
      {"sim", {"sim:0"}},
      {"sim_threaded", {"sim:0"}, -1, true},
      {"two_sims", {"sim:0", "sim:1"}, 1},
      {"two_sims_threaded", {"sim:0", "sim:1"}, 1, true},
      {"sim_then_cpu", {"sim:0", "cpu"}, 1},
      {"cpu_then_sim", {"cpu", "sim:0"}, 1},
      {"alternating_sims", {"sim:0", "sim:1"}, -1, false, MINFER_OP_MUL},
      {"alternating_threaded", {"sim:0", "sim:1"}, -1, true, MINFER_OP_MUL},
      {"alternating_cpu", {"sim:0", "cpu"}, -1, false, MINFER_OP_MUL}};
  if (const std::string device = device_to_test(); !device.empty()) {
    layouts.push_back({"device", {device}});
    layouts.push_back({"device_then_cpu", {device, "cpu"}, 1});
  }
  return layouts;
}

SimTest::SimTest() {
  set_log_sink([this](LogLevel, std::string_view line) {
    const std::lock_guard lock(log_mutex_);
    log_.emplace_back(line);
  });
  PluginHost::Options options;
  options.files = plugin_files();
  options.search = false;
  auto host = PluginHost::load(options);
  if (!host) throw std::runtime_error(host.error().message());
  host_ = std::move(*host);
  if (auto resolved = host_->gates().resolve({}); !resolved)
    throw std::runtime_error(resolved.error().message());
  if (auto listed = host_->enumerate(); !listed) throw std::runtime_error(listed.error().message());
  auto device = host_->open(**host_->find_device("sim:0"));
  if (!device) throw std::runtime_error(device.error().message());
  control_ =
      static_cast<const minfer_sim::Control*>((*device)->table().get_interface("minfer_sim", 1));
  control_->reset();
}

SimTest::~SimTest() {
  set_log_sink({});
}

void SimTest::TearDown() {
  const minfer_sim::Stats stats = sim_stats();
  EXPECT_EQ(stats.violations, 0u) << stats.first_violation;
  EXPECT_EQ(stats.imported, stats.released) << "weights not released once each";
  EXPECT_EQ(stats.live_buffers, 0);
  EXPECT_EQ(stats.live_plans, 0);
  EXPECT_EQ(stats.live_imports, 0);
}

std::shared_ptr<const Model> SimTest::tiny(const std::string& arch, bool tied) {
  auto& model = models_[arch + (tied ? "-tied" : "")];
  if (model) return model;
  const auto path = std::filesystem::temp_directory_path() /
                    ("minfer-sim-" + arch + std::to_string(getpid()) + ".gguf");
  TinyModel shape;
  shape.arch = arch;
  shape.tied = tied;
  const auto written = write_tiny_model(path, shape);
  EXPECT_TRUE(written) << written.error().message();
  auto file = GgufFile::open(path);
  EXPECT_TRUE(file) << file.error().message();
  std::filesystem::remove(path);  // the mapping keeps it
  auto created = Model::create(std::move(*file));
  EXPECT_TRUE(created) << created.error().message();
  model = std::move(*created);
  return model;
}

EngineOptions SimTest::small_options() {
  EngineOptions options;
  options.context = 128;
  options.max_sequences = 4;
  options.max_step_tokens = 24;
  options.max_step_outputs = 24;
  options.kv_type = MINFER_TYPE_F32;
  options.kv_page_tokens = 16;
  return options;
}

Result<std::unique_ptr<Engine>> SimTest::open(const std::string& arch, const Layout& layout,
                                              EngineOptions options) {
  return open(tiny(arch), layout, std::move(options));
}

Result<std::unique_ptr<Engine>> SimTest::open(std::shared_ptr<const Model> model,
                                              const Layout& layout, EngineOptions options) {
  sim().set_threaded(layout.threaded);
  sim().refuse(layout.refused_op, MINFER_NONE);
  options.devices = layout.devices;
  options.gpu_layers = layout.gpu_layers;
  return Engine::create(std::move(model), *host_, options);
}

std::unique_ptr<Engine> SimTest::must_open(const std::string& arch, const Layout& layout,
                                           EngineOptions options) {
  auto engine = open(arch, layout, options);
  if (!engine) throw std::runtime_error(engine.error().message());
  return std::move(*engine);
}

minfer_sim::Stats SimTest::sim_stats() const {
  minfer_sim::Stats stats;
  control_->stats(&stats);
  return stats;
}

std::vector<std::string> SimTest::logged(const std::string& text) const {
  const std::lock_guard lock(log_mutex_);
  std::vector<std::string> out;
  for (const std::string& line : log_)
    if (line.find(text) != std::string::npos) out.push_back(line);
  return out;
}

std::vector<float> Alone::logits(const std::vector<TokenId>& tokens) {
  const SequenceId id = *engine_->sequence_new();
  const auto result = engine_->prefill(id, tokens);
  if (!result) throw std::runtime_error(result.error().message());
  std::vector<float> out(result->logits.begin(), result->logits.end());
  (void)engine_->sequence_free(id);
  return out;
}

double relative_error(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double difference = 0;
  double norm = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double d = double{a[i]} - b[i];
    difference += d * d;
    norm += double{b[i]} * b[i];
  }
  const double error = std::sqrt(difference / norm);
  return std::isnan(error) ? std::numeric_limits<double>::infinity() : error;
}

bool is_arg_max(std::span<const float> logits, TokenId token) {
  if (token < 0 || static_cast<size_t>(token) >= logits.size()) return false;
  const float best = *std::max_element(logits.begin(), logits.end());
  return logits[static_cast<size_t>(token)] >= best - 1e-4f * std::abs(best);
}

}  // namespace minfer::testing
