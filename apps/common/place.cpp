#include "place.h"

#include <fmt/format.h>

#include <filesystem>

#include "terminal.h"

namespace po = boost::program_options;

namespace minfer::app {
namespace {

constexpr uint32_t kMaxThreads = 1024;
constexpr int32_t kMaxLayers = 100000;
constexpr unsigned kHelpWidth = 100;

}  // namespace

po::options_description place_flags(DeviceLists lists) {
  po::options_description d("where to run it", kHelpWidth);
  auto add = d.add_options();
  if (lists == DeviceLists::kOne)
    add("device", one("LIST"), "devices in order, e.g. cuda:0,cpu [every usable one, best first]");
  else
    add("device", several("LIST"),
        "devices in order, e.g. cuda:0,cpu [every usable one, best first]; each time it is given, "
        "another place to run on");
  add("gpu-layers", one("N"), "layers on the first device [-1: as many as fit]");
  add("threads,t", one("N"), "CPU threads [0: all]");
  add("cache-type", one("TYPE"), "KV cache: auto, f32, f16 or q8_0 [auto: f16]");
  add("plugin", several("FILE"), "also load this plugin");
  add("gate", several("GATE"),
      "OWNER:NAME=VALUE, e.g. cpu:MINFER_CPU_ISA=avx2; minfer-run "
      "--list-gates shows them");
  return d;
}

Result<void> take_place(const Flags& flags, RunConfig& config, std::vector<GateFlag>& gates) {
  if (flags.has("device") && !flags.is_list("device")) {
    MINFER_ASSIGN(config.backends, parse_devices(flags.text("device")));
  }
  MINFER_TRY(flags.take<int32_t>("gpu-layers", config.gpu_layers, -1, kMaxLayers));
  if (flags.has("cache-type")) {
    MINFER_ASSIGN(config.cache_type, parse_cache_type(flags.text("cache-type")));
  }
  for (const std::string& file : flags.texts("plugin")) {
    if (file.empty()) return fail(ErrorCode::kUsage, "the file's name is empty", "--plugin");
    config.plugins.push_back(std::filesystem::absolute(file).lexically_normal());
  }
  for (const std::string& text : flags.texts("gate")) {
    MINFER_ASSIGN(auto gate, parse_gate(text));
    gates.push_back(std::move(gate));
  }
  if (!flags.has("threads")) return {};
  uint32_t threads = 0;
  MINFER_TRY(flags.take<uint32_t>("threads", threads, 0, kMaxThreads));
  gates.push_back({"cpu", "MINFER_CPU_THREADS", std::to_string(threads), "--threads"});
  return {};
}

Result<std::vector<std::vector<BackendConfig>>> device_lists(const Flags& flags) {
  if (!flags.has("device")) return std::vector<std::vector<BackendConfig>>(1);
  std::vector<std::vector<BackendConfig>> lists;
  for (const std::string& text : flags.texts("device")) {
    MINFER_ASSIGN(auto devices, parse_devices(text));
    lists.push_back(std::move(devices));
  }
  return lists;
}

EngineOptions engine_options(const RunConfig& config, bool quiet) {
  EngineOptions out;
  for (const BackendConfig& backend : config.backends) out.devices.push_back(backend.device_id());
  out.gpu_layers = config.gpu_layers;
  out.max_sequences = config.max_sequences;
  out.max_step_tokens = config.batch;
  out.kv_type = kv_type(config.cache_type);
  out.on_progress = progress_line(quiet);
  return out;
}

}  // namespace minfer::app
