#include "session.h"

#include <fmt/format.h>

#include <algorithm>

#include "lists.h"
#include "place.h"
#include "terminal.h"

namespace minfer::run {
namespace {

/// What was asked for, or a default that the model was trained for.
uint32_t context_of(const RunConfig& config, const Model& model) {
  const uint32_t trained = model.hparams().context_length;
  if (config.context_given || trained == 0) return config.context;
  return std::min(config.context, trained);
}

EngineOptions engine_options(const Options& options, const Model& model) {
  EngineOptions out = app::engine_options(options.config, options.quiet);
  out.context = context_of(options.config, model);
  return out;
}

}  // namespace

Result<Session> plan_session(std::unique_ptr<PluginHost> host, const Options& options) {
  Session session;
  if (!options.trace.empty()) session.trace = std::make_unique<Trace>();
  session.host = std::move(host);
  MINFER_ASSIGN(session.file, GgufFile::open(options.config.model));
  MINFER_ASSIGN(session.model, Model::create(session.file));
  EngineOptions engine = engine_options(options, *session.model);
  engine.trace = session.trace.get();
  MINFER_ASSIGN(session.engine, Engine::plan(session.model, *session.host, engine));
  return session;
}

std::string session_line(const Session& session) {
  const HyperParams& hp = session.model->hparams();
  uint64_t weights = 0;
  for (const MemoryPlan::Entry& e : session.engine->memory_plan().devices) weights += e.weights;
  std::string devices;
  for (const auto& device : session.engine->devices()) {
    const DeviceInfo& info = device->info();
    devices += fmt::format("; {} is {}{}{}", info.id, info.name, info.details.empty() ? "" : ", ",
                           info.details);
  }
  return fmt::format("{} ({}, {}) on {}, context {}{}",
                     hp.name.empty() ? session.file->path().filename().string() : hp.name,
                     hp.architecture, app::bytes_text(weights),
                     app::placement_line(*session.engine), session.engine->options().context,
                     devices);
}

}  // namespace minfer::run
