// The schema of a config, key by key (docs/config.md describes it for users).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "config/fields.h"
#include "config/schema.h"
#include "minfer/config.h"
#include "minfer/engine.h"
#include "minfer/nearest.h"

namespace minfer {
namespace {

namespace fs = std::filesystem;

constexpr Range<uint32_t> kContextRange{0, kMaxContext};
constexpr Range<uint32_t> kSequencesRange{1, 4096};
constexpr Range<uint32_t> kBatchRange{1, 65536};
constexpr uint32_t kMaxThreads = 1024;
constexpr uint32_t kMaxDeviceIndex = 255;
constexpr uint32_t kNoDevice = UINT32_MAX;
constexpr size_t kMaxStops = 64;
constexpr size_t kMaxStopBytes = 1024;
constexpr const char* kThreadsGate = "MINFER_CPU_THREADS";

class ConfigReader {
 public:
  ConfigReader(RunConfig& config, const fs::path& origin)
      : config_(config),
        reader_(origin.empty() ? "config" : origin.string()),
        folder_(origin.parent_path()) {}

  std::vector<Field> top_fields();
  std::vector<Field> sampling_fields();
  Result<void> read(const YamlNode& root) {
    MINFER_TRY(reader_.map(root, "", top_fields()));
    return check_threads();
  }

 private:
  /// "auto", or an integer from `low`.
  template <class T>
  Field or_auto(std::string key, T& out, T automatic, Range<T> range);
  Field list_of_plugins();
  Field backends();
  Field cache_type();
  Field chat_template();
  Field stops();
  Field seed();
  Field logit_bias();
  Field gates();

  Result<void> read_backend(const YamlNode& node);
  Result<void> read_backend_name(const YamlNode& node, BackendConfig& backend);
  Result<void> read_plugin_path(const YamlNode& node, std::string_view key, fs::path& out);
  Result<void> read_gates_of(const YamlNode& owner, const YamlNode& group);
  Result<void> check_threads();

  RunConfig& config_;
  FieldReader reader_;
  fs::path folder_;
  std::string threads_place_;
};

std::vector<Field> ConfigReader::top_fields() {
  return {
      reader_.text("model", config_.model_text),
      backends(),
      list_of_plugins(),
      or_auto<int32_t>("gpu_layers", config_.gpu_layers, -1, {0, 100000}),
      {"context",
       [this](const YamlNode& node) {
         config_.context_given = true;
         return reader_.unsigned_integer("context", config_.context, kContextRange).read(node);
       }},
      reader_.unsigned_integer("max_sequences", config_.max_sequences, kSequencesRange),
      reader_.unsigned_integer("batch", config_.batch, kBatchRange),
      {"threads",
       [this](const YamlNode& node) {
         threads_place_ = place_of(node, reader_.origin());
         return or_auto<uint32_t>("threads", config_.threads, 0, {1, kMaxThreads}).read(node);
       }},
      cache_type(),
      {"sampling",
       [this](const YamlNode& node) { return reader_.map(node, "sampling", sampling_fields()); }},
      stops(),
      reader_.text("system", config_.system),
      chat_template(),
      or_auto<int32_t>("max_tokens", config_.max_tokens, -1,
                       {0, std::numeric_limits<int32_t>::max()}),
      gates(),
  };
}

std::vector<Field> ConfigReader::sampling_fields() {
  SamplerParams& p = config_.sampling;
  return {
      reader_.number("temperature", p.temperature, kTemperatureRange),
      reader_.integer("top_k", p.top_k, kTopKRange),
      reader_.number("top_p", p.top_p, kFractionRange),
      reader_.number("min_p", p.min_p, kFractionRange),
      reader_.number("typical_p", p.typical_p, kFractionRange),
      reader_.number("repeat_penalty", p.repeat_penalty, kRepeatPenaltyRange),
      reader_.integer("repeat_last_n", p.repeat_last_n, kRepeatLastRange),
      reader_.number("presence_penalty", p.presence_penalty, kCountPenaltyRange),
      reader_.number("frequency_penalty", p.frequency_penalty, kCountPenaltyRange),
      logit_bias(),
      seed(),
  };
}

template <class T>
Field ConfigReader::or_auto(std::string key, T& out, T automatic, Range<T> range) {
  return {key, [this, key, &out, automatic, range](const YamlNode& node) -> Result<void> {
            if (node.kind == YamlNode::Kind::kScalar && node.text == "auto") {
              out = automatic;
              return {};
            }
            const auto value = FieldReader::as_integer(node, range.low, range.high);
            if (!value)
              return reader_.wrong(
                  node, key,
                  fmt::format("auto or an integer from {} to {}", range.low, range.high));
            out = static_cast<T>(*value);
            return {};
          }};
}

Result<void> ConfigReader::read_plugin_path(const YamlNode& node, std::string_view key,
                                            fs::path& out) {
  if (node.kind != YamlNode::Kind::kScalar) return reader_.wrong(node, key, "a path");
  out = node.text;
  // A relative path would depend on where minfer is started, and a plugin is code.
  if (!out.is_absolute()) return reader_.wrong(node, key, "an absolute path");
  return {};
}

Field ConfigReader::list_of_plugins() {
  return {"plugins", [this](const YamlNode& node) -> Result<void> {
            if (node.kind != YamlNode::Kind::kList)
              return reader_.wrong(node, "plugins", "a list of absolute paths");
            for (const YamlNode& item : node.items) {
              fs::path path;
              MINFER_TRY(read_plugin_path(item, "plugins", path));
              config_.plugins.push_back(std::move(path));
            }
            return {};
          }};
}

Field ConfigReader::backends() {
  return {"backends", [this](const YamlNode& node) -> Result<void> {
            if (node.kind == YamlNode::Kind::kScalar) return read_backend(node);
            if (node.kind != YamlNode::Kind::kList)
              return reader_.wrong(node, "backends", "a list such as [cuda, cpu]");
            for (const YamlNode& item : node.items) MINFER_TRY(read_backend(item));
            return {};
          }};
}

Result<void> ConfigReader::read_backend_name(const YamlNode& node, BackendConfig& backend) {
  const std::string& text = node.text;
  const size_t colon = text.find(':');
  backend.name = text.substr(0, colon);
  const bool legal =
      node.kind == YamlNode::Kind::kScalar && !backend.name.empty() && backend.name.size() <= 32 &&
      std::all_of(backend.name.begin(), backend.name.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
      });
  if (!legal)
    return reader_.wrong(node, "backends",
                         "a backend's name (lower-case letters, digits, '_', '-'), or "
                         "a device such as cuda:0");
  if (colon == std::string::npos) return {};
  uint32_t index = 0;
  const char* end = text.data() + text.size();
  const auto [stop, ec] = std::from_chars(text.data() + colon + 1, end, index);
  if (ec != std::errc() || stop != end || index > kMaxDeviceIndex)
    return reader_.wrong(node, "backends",
                         fmt::format("NAME:NUMBER with a number from 0 to {}", kMaxDeviceIndex));
  backend.device = index;
  return {};
}

Result<void> ConfigReader::read_backend(const YamlNode& node) {
  BackendConfig backend;
  if (node.kind == YamlNode::Kind::kMap) {
    uint32_t device = kNoDevice;
    MINFER_TRY(reader_.map(
        node, "backends",
        {{"name", [&](const YamlNode& value) { return read_backend_name(value, backend); }},
         reader_.unsigned_integer("device", device, {0, kMaxDeviceIndex}),
         {"plugin", [&](const YamlNode& value) {
            return read_plugin_path(value, "plugin", backend.plugin);
          }}}));
    if (device != kNoDevice) {
      if (backend.device)
        return reader_.wrong(node, "device", "given once, in 'name' or on its own");
      backend.device = device;
    }
    if (backend.name.empty()) return reader_.wrong(node, "backends", "entries that have a 'name'");
  } else {
    MINFER_TRY(read_backend_name(node, backend));
  }
  for (const BackendConfig& other : config_.backends)
    if (other.device_id() == backend.device_id())
      return fail(ErrorCode::kConfig,
                  fmt::format("backend '{}' is listed twice", backend.device_id()),
                  place_of(node, reader_.origin()));
  config_.backends.push_back(std::move(backend));
  return {};
}

Field ConfigReader::cache_type() {
  return {"cache_type", [this](const YamlNode& node) -> Result<void> {
            const std::vector<std::string> names = {"auto", "f32", "f16", "q8_0"};
            const auto it = std::find(names.begin(), names.end(), node.text);
            if (node.kind != YamlNode::Kind::kScalar || it == names.end())
              return reader_.wrong(node, "cache_type",
                                   fmt::format("one of {}", fmt::join(names, ", ")),
                                   did_you_mean(node.text, names));
            config_.cache_type = static_cast<CacheType>(it - names.begin());
            return {};
          }};
}

Field ConfigReader::chat_template() {
  return {"chat_template", [this](const YamlNode& node) -> Result<void> {
            if (node.kind != YamlNode::Kind::kScalar || node.text.empty())
              return reader_.wrong(node, "chat_template", "auto, none or the path of a template");
            config_.use_template = node.text != "none";
            config_.chat_template.clear();
            if (node.text == "none" || node.text == "auto") return {};
            const fs::path path(node.text);
            config_.chat_template = path.is_absolute() ? path : folder_ / path;
            return {};
          }};
}

Field ConfigReader::stops() {
  return {"stop", [this](const YamlNode& node) -> Result<void> {
            const auto add = [&](const YamlNode& item) -> Result<void> {
              if (item.kind != YamlNode::Kind::kScalar || item.text.empty() ||
                  item.text.size() > kMaxStopBytes || config_.stop.size() == kMaxStops)
                return reader_.wrong(item, "stop",
                                     fmt::format("text of 1 to {} bytes, or a list of at "
                                                 "most {} such texts",
                                                 kMaxStopBytes, kMaxStops));
              config_.stop.push_back(item.text);
              return {};
            };
            if (node.kind != YamlNode::Kind::kList) return add(node);
            for (const YamlNode& item : node.items) MINFER_TRY(add(item));
            return {};
          }};
}

Field ConfigReader::seed() {
  return {
      "seed", [this](const YamlNode& node) -> Result<void> {
        if (node.kind == YamlNode::Kind::kScalar && node.text == "random") {
          config_.sampling.seed.reset();
          return {};
        }
        uint64_t value = 0;
        const char* end = node.text.data() + node.text.size();
        const auto [stop, ec] = std::from_chars(node.text.data(), end, value);
        if (node.kind != YamlNode::Kind::kScalar || node.quoted || ec != std::errc() || stop != end)
          return reader_.wrong(node, "seed", "random or an integer from 0 to 2^64 - 1");
        config_.sampling.seed = value;
        return {};
      }};
}

Field ConfigReader::logit_bias() {
  return {
      "logit_bias", [this](const YamlNode& node) -> Result<void> {
        if (node.kind != YamlNode::Kind::kMap || node.keys.size() > kMaxLogitBiases)
          return reader_.wrong(node, "logit_bias",
                               fmt::format("up to {} entries TOKEN_ID: NUMBER", kMaxLogitBiases));
        for (size_t i = 0; i < node.keys.size(); ++i) {
          const YamlNode& key = node.keys[i];
          const YamlNode& value = node.items[i];
          YamlNode id_node = key;
          id_node.quoted = false;  // JSON writes the ids as strings
          const auto id = FieldReader::as_integer(id_node, 0, std::numeric_limits<TokenId>::max());
          if (!id) return reader_.wrong(key, "logit_bias", "keyed by token ids");
          const auto bias = FieldReader::as_number(value);
          if (!bias || !is_logit_bias(*bias))
            return reader_.wrong(value, "logit_bias",
                                 fmt::format("numbers from {} to {}, or -inf to forbid a token",
                                             kLogitBiasRange.low, kLogitBiasRange.high));
          config_.sampling.logit_bias.emplace_back(static_cast<TokenId>(*id), *bias);
        }
        return {};
      }};
}

Result<void> ConfigReader::read_gates_of(const YamlNode& owner, const YamlNode& group) {
  if (group.kind == YamlNode::Kind::kNull) return {};
  if (group.kind != YamlNode::Kind::kMap)
    return reader_.wrong(group, "gates." + owner.text, "a group of gates");
  for (size_t i = 0; i < group.keys.size(); ++i) {
    const YamlNode& name = group.keys[i];
    const YamlNode& value = group.items[i];
    if (value.kind != YamlNode::Kind::kScalar)
      return reader_.wrong(value, name.text, "a gate's value");
    config_.gates[owner.text][name.text] = value.text;
    config_.gate_locations[owner.text][name.text] = place_of(name, reader_.origin());
  }
  return {};
}

Field ConfigReader::gates() {
  return {"gates", [this](const YamlNode& node) -> Result<void> {
            if (node.kind == YamlNode::Kind::kNull) return {};
            if (node.kind != YamlNode::Kind::kMap)
              return reader_.wrong(node, "gates", "groups of gates by owner, such as cpu:");
            for (size_t i = 0; i < node.keys.size(); ++i) {
              const YamlNode& owner = node.keys[i];
              if (owner.text.starts_with("MINFER_"))
                return fail(ErrorCode::kConfig,
                            fmt::format("gate {} stands outside an owner's group", owner.text),
                            place_of(owner, reader_.origin()),
                            "put it under gates.core or a backend's name");
              MINFER_TRY(read_gates_of(owner, node.items[i]));
            }
            return {};
          }};
}

Result<void> ConfigReader::check_threads() {
  if (config_.threads == 0) return {};
  const auto cpu = config_.gates.find("cpu");
  if (cpu != config_.gates.end() && cpu->second.contains(kThreadsGate))
    return fail(ErrorCode::kConfig,
                fmt::format("'threads' and gate {} set the same thing", kThreadsGate),
                threads_place_, "keep one of them");
  return {};
}

}  // namespace

std::string BackendConfig::device_id() const {
  return device ? fmt::format("{}:{}", name, *device) : name;
}

GateTexts RunConfig::all_gates() const {
  GateTexts all = gates;
  if (threads != 0) all["cpu"][kThreadsGate] = std::to_string(threads);
  return all;
}

Result<RunConfig> parse_config(std::string_view yaml, const fs::path& origin) {
  RunConfig config;
  config.file = origin;
  ConfigReader reader(config, origin);
  MINFER_ASSIGN(const YamlNode root, read_yaml(yaml, origin.empty() ? "config" : origin.string()));
  MINFER_TRY(reader.read(root));
  return config;
}

std::vector<std::string> config_keys() {
  RunConfig config;
  ConfigReader reader(config, {});
  std::vector<std::string> keys;
  for (const Field& field : reader.top_fields())
    if (field.key != "sampling") keys.push_back(field.key);
  for (const Field& field : reader.sampling_fields()) keys.push_back("sampling." + field.key);
  return keys;
}

}  // namespace minfer
