// A model placed on devices, ready to be described or loaded.
#pragma once

#include <memory>

#include "minfer/engine.h"
#include "minfer/plugin_host.h"
#include "options.h"

namespace minfer::run {

/// Members are destroyed from the last to the first: the engine goes before its host.
struct Session {
  std::unique_ptr<Trace> trace;  ///< null unless --trace was given
  std::unique_ptr<PluginHost> host;
  std::shared_ptr<const GgufFile> file;
  std::shared_ptr<const Model> model;
  std::unique_ptr<Engine> engine;
};

/// Opens the model on a host and plans it; no weight is read.
Result<Session> plan_session(std::unique_ptr<PluginHost> host, const Options& options);

/// "NAME (ARCHITECTURE, 92.1 MiB) on cpu:0, context 4096", for the start of a run.
std::string session_line(const Session& session);

}  // namespace minfer::run
