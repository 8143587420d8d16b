// Opens an engine on one backend for golden tests: MINFER_TEST_DEVICE picks the device (cpu by
// default), so that the same goldens judge every backend.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include "minfer/engine.h"

namespace minfer::testing {

struct GoldenEngine {
  std::unique_ptr<PluginHost> host;
  std::unique_ptr<Engine> engine;
};

/// `gates`: texts of the cpu backend's gates, e.g. {"MINFER_CPU_ISA", "scalar"}.
inline Result<GoldenEngine> open_engine(const std::filesystem::path& model_path,
                                        EngineOptions options,
                                        const std::map<std::string, std::string>& cpu_gates = {}) {
  GoldenEngine out;
  PluginHost::Options host_options;
  host_options.library_dir = MINFER_BINARY_DIR "/lib";
  MINFER_ASSIGN(out.host, PluginHost::load(host_options));
  MINFER_TRY(out.host->gates().resolve({{"cpu", cpu_gates}}));
  MINFER_TRY(out.host->enumerate());
  MINFER_ASSIGN(auto file, GgufFile::open(model_path));
  MINFER_ASSIGN(auto model, Model::create(std::move(file)));
  const char* device = std::getenv("MINFER_TEST_DEVICE");
  options.devices = {device ? device : "cpu"};
  MINFER_ASSIGN(out.engine, Engine::create(std::move(model), *out.host, options));
  return out;
}

}  // namespace minfer::testing
