#include "side.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "place.h"

namespace minfer::verify {
namespace {

constexpr size_t kDrawnTokens = 24;

}  // namespace

Result<Side> Side::open(const RunConfig& config, const std::vector<app::GateFlag>& gates,
                        bool quiet) {
  Side side;
  MINFER_ASSIGN(side.host_, app::open_host(config, gates));
  MINFER_ASSIGN(auto file, GgufFile::open(config.model));
  MINFER_ASSIGN(side.model_, Model::create(std::move(file)));
  side.options_ = app::engine_options(config, quiet);
  return side;
}

Result<const DeviceInfo*> Side::device_info() const {
  if (!options_.devices.empty()) return host_->find_device(options_.devices.front());
  const auto devices = host_->devices();
  const auto best =
      std::max_element(devices.begin(), devices.end(),
                       [](const DeviceInfo& a, const DeviceInfo& b) { return a.score < b.score; });
  if (best == devices.end() || best->score == 0)
    return fail(ErrorCode::kNotFound, "no usable device", "", "see minfer-run --list-devices");
  return &*best;
}

Result<std::shared_ptr<Device>> Side::device() {
  MINFER_ASSIGN(const DeviceInfo* info, device_info());
  if (info->score == 0)
    return fail(ErrorCode::kUnsupported, fmt::format("unusable: {}", info->reason), info->id);
  MINFER_ASSIGN(auto device, host_->open(*info));
  device->set_gates(host_->gates().values(info->backend));
  return device;
}

Result<std::unique_ptr<Engine>> Side::engine(uint32_t sequences, uint32_t context,
                                             uint32_t step_outputs) {
  EngineOptions options = options_;
  options.max_sequences = sequences;
  options.context = context;
  options.max_step_outputs = step_outputs;
  return Engine::create(model_, *host_, options);
}

uint32_t Side::kv_type() const {
  if (options_.kv_type) return *options_.kv_type;
  const Gate* gate = host_->gates().find("MINFER_CACHE_TYPE");
  const std::string text = gate ? gate->value_text() : "auto";
  return text == "f32" ? MINFER_TYPE_F32 : text == "q8_0" ? MINFER_TYPE_Q8_0 : MINFER_TYPE_F16;
}

std::string Side::name() const {
  const auto info = device_info();
  if (!info) return "?";
  std::string gates;
  for (const Gate& gate : host_->gates().all()) {
    if (gate.value == gate.spec.default_value) continue;
    if (gate.spec.owner != "core" && gate.spec.owner != (*info)->backend) continue;
    gates += fmt::format("{}{}={}", gates.empty() ? " (" : ", ", gate.spec.name, gate.value_text());
  }
  return (*info)->id + gates + (gates.empty() ? "" : ")");
}

std::vector<TokenId> prompt_tokens(const Model& model, const std::string& text, size_t least) {
  std::vector<TokenId> tokens;
  if (const auto tokenizer = Tokenizer::create(model.file()))
    tokens = (*tokenizer)->encode(text, true, true);
  std::mt19937 random(1);
  for (size_t n = tokens.size(); tokens.empty() || tokens.size() < least;) {
    if (n > 0) {
      tokens.push_back(tokens[tokens.size() - n]);
    } else {
      while (tokens.size() < std::max(least, kDrawnTokens))
        tokens.push_back(static_cast<TokenId>(random() % model.hparams().n_vocab));
    }
  }
  return tokens;
}

}  // namespace minfer::verify
