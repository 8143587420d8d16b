// A run's configuration: the YAML that docs/config.md describes, as a struct.
//
// Pure functions and plain values; safe from any thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "minfer/gates.h"
#include "minfer/result.h"
#include "minfer/sampler.h"

namespace minfer {

/// One entry of `backends:`, in order of preference.
struct BackendConfig {
  std::string name;                ///< "cuda"
  std::optional<uint32_t> device;  ///< its number; unset: the backend's best
  std::filesystem::path plugin;    ///< file to load it from; empty: where plugins are searched

  /// "cuda" or "cuda:1", as PluginHost::find_device and EngineOptions::devices take it.
  std::string device_id() const;
};

enum class CacheType { kAuto, kF32, kF16, kQ8_0 };

/// Defaults are those of a run without a config.
struct RunConfig {
  std::filesystem::path file;   ///< where it was read from; empty: no file
  std::filesystem::path model;  ///< resolved by find_model(); empty: the config names none
  std::string model_text;       ///< as written

  std::vector<BackendConfig> backends;         ///< empty: every usable device, best first
  std::vector<std::filesystem::path> plugins;  ///< further plugin files, absolute
  int32_t gpu_layers = -1;                     ///< -1: as many as memory holds
  uint32_t context = 4096;                     ///< positions; 0: what the model was trained for
  bool context_given = false;                  ///< `context` was asked for, not the default
  uint32_t max_sequences = 1;
  uint32_t batch = 512;  ///< tokens of one step at most
  uint32_t threads = 0;  ///< of the CPU backend; 0: every core
  CacheType cache_type = CacheType::kAuto;

  SamplerParams sampling;
  std::vector<std::string> stop;
  std::string system;  ///< system prompt; empty: none
  std::filesystem::path
      chat_template;         ///< file that replaces the model's template; empty: the model's
  bool use_template = true;  ///< false: the prompt is given to the model as it is
  int32_t max_tokens = -1;   ///< tokens to generate; -1: until the model or context ends

  GateTexts gates;           ///< as written
  GateTexts gate_locations;  ///< "file:line:column" of each

  /// `gates` and what `threads` means as a gate of the CPU backend; for GateRegistry::resolve.
  GateTexts all_gates() const;
};

/// Reads and checks YAML text. `origin` is used in messages ("a.yaml:3:7: ...") and to resolve
/// relative paths (empty: the working directory). Errors are kConfig and name place, key, what was
/// found and expected, and the nearest known key. `model` stays empty; find_model() resolves
/// `model_text`.
Result<RunConfig> parse_config(std::string_view yaml, const std::filesystem::path& origin);

/// Reads a file with parse_config() and resolves its model. kIo, kNotFound or kConfig.
Result<RunConfig> load_config(const std::filesystem::path& file);

/// The file that --config NAME means: as given, then NAME (with ".yaml" added where it has no
/// extension) in each of config_folders(). kNotFound lists the places and the nearest name there.
Result<std::filesystem::path> find_config(std::string_view name);

/// Folders of shipped configs: beside the installed library (../share/minfer/configs), then the
/// source tree this build came from.
std::vector<std::filesystem::path> config_folders();

/// The file that a model's name means: absolute as it is; else relative to `folder` (of the config;
/// the working directory for a flag), then in model_cache(). kNotFound lists the places.
Result<std::filesystem::path> find_model(std::string_view name,
                                         const std::filesystem::path& folder);

/// ${XDG_CACHE_HOME:-~/.cache}/minfer/models; empty when neither variable is set.
std::filesystem::path model_cache();

}  // namespace minfer
