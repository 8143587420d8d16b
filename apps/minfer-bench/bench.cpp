#include "bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "host_memory.h"
#include "minfer/log.h"
#include "place.h"

namespace minfer::bench {
namespace {

using Clock = std::chrono::steady_clock;

/// Tokens of the run that is measured node by node: its kernels are the same at every token.
constexpr uint32_t kTraceTokens = 16;
/// Uncounted runs before a test: the second may still be slower, as a backend captures its plan
/// then.
constexpr uint32_t kWarmUps = 2;

/// One model in one place while it is measured. Members go from the last to the first.
struct Session {
  std::unique_ptr<PluginHost> host;
  std::shared_ptr<const Model> model;
  std::unique_ptr<Engine> engine;
  std::shared_ptr<Subject> subject = std::make_shared<Subject>();
};

/// Room for the largest test; the context is not bound to what the model was trained for.
EngineOptions room_for(const Options& options, const RunConfig& config) {
  EngineOptions out = app::engine_options(config, options.quiet);
  out.context = 1;
  for (const app::Workload& t : options.tests) {
    out.context = std::max(out.context, static_cast<uint32_t>(t.positions(config.batch)) + 1);
    out.max_sequences = std::max(out.max_sequences, t.sequences());
  }
  return out;
}

std::string type_name(uint32_t type) {
  const TypeInfo* info = find_type(type);
  return info ? std::string(info->name) : "?";
}

void describe(const Options& options, const RunConfig& config, Session& session) {
  Subject& s = *session.subject;
  const HyperParams& hp = session.model->hparams();
  s.model = config.model.string();
  s.name = hp.name;
  s.architecture = hp.architecture;
  for (const GgufTensor& t : session.model->file().tensors()) {
    s.file_bytes += t.bytes;
    s.parameters += static_cast<uint64_t>(t.ne[0] * t.ne[1] * t.ne[2] * t.ne[3]);
  }
  for (const MemoryPlan::Entry& e : session.engine->memory_plan().devices)
    s.held_bytes += e.weights;
  for (const BackendConfig& device : config.backends)
    s.asked += (s.asked.empty() ? "" : ",") + device.device_id();
  s.gpu_layers = config.gpu_layers;
  s.step_tokens = session.engine->options().max_step_tokens;
  s.kv_type = type_name(session.engine->options().kv_type.value_or(MINFER_TYPE_F16));
  if (const Gate* threads = session.host->gates().find("MINFER_CPU_THREADS"))
    s.threads = threads->value_text();
}

Result<Session> load(const Options& options, const RunConfig& config) {
  Session session;
  MINFER_ASSIGN(session.host, app::open_host(config, options.gates));
  app::reset_peak_host_memory();
  const auto start = Clock::now();
  MINFER_ASSIGN(auto file, GgufFile::open(config.model));
  MINFER_ASSIGN(session.model, Model::create(std::move(file)));
  MINFER_ASSIGN(session.engine,
                Engine::create(session.model, *session.host, room_for(options, config)));
  session.subject->load_seconds = std::chrono::duration<double>(Clock::now() - start).count();
  describe(options, config, session);
  return session;
}

/// Units that are not on the first device although it was to take all it could.
void note_places(const Session& session, std::vector<std::string>& notes) {
  const Engine& engine = *session.engine;
  if (session.subject->gpu_layers >= 0 || engine.devices().size() < 2) return;
  size_t elsewhere = 0;
  std::string reason;
  for (const UnitPlacement& p : engine.placement()) {
    if (p.device == 0) continue;
    ++elsewhere;
    if (reason.empty()) reason = p.passed_over;
  }
  if (elsewhere > 0)
    notes.push_back(fmt::format("{} of {} units are not on {}: {}", elsewhere,
                                engine.placement().size(), engine.devices()[0]->info().id, reason));
}

/// Matrix products and attention for which the backend knows a faster kernel than it took.
Result<void> note_kernels(Engine& engine, const app::Workload& test,
                          std::vector<std::string>& notes) {
  const uint32_t tokens = test.prompt > 0 ? test.prompt + test.beside : test.batch;
  MINFER_ASSIGN(const auto nodes, engine.explain(tokens));
  std::set<std::string> seen;
  for (const NodePlacement& n : nodes)
    if (!n.why.empty() && seen.insert(n.why).second)
      notes.push_back(fmt::format("{} {}: {}", n.op, n.kernel, n.why));
  return {};
}

/// The devices of the kernels that ran, in the engine's order.
std::vector<std::string> devices_of(const Engine& engine, const std::vector<OpTiming>& kernels) {
  std::vector<std::string> out;
  for (const auto& device : engine.devices()) {
    const std::string& id = device->info().id;
    if (std::any_of(kernels.begin(), kernels.end(), [&](const auto& k) { return k.device == id; }))
      out.push_back(id);
  }
  return out;
}

Result<Record> run_test(const Session& session, const app::Workload& test, const ModelCost& cost,
                        uint32_t repetitions) {
  Engine& engine = *session.engine;
  Record out;
  out.subject = session.subject;
  out.test = test;
  out.work = cost.of(test, engine.options().max_step_tokens);
  MINFER_ASSIGN(auto runner, app::WorkloadRunner::create(engine, test));
  MINFER_ASSIGN(out.kernels, runner.trace(kTraceTokens));
  out.devices = devices_of(engine, out.kernels);
  note_places(session, out.fallbacks);
  MINFER_TRY(note_kernels(engine, test, out.fallbacks));
  for (uint32_t i = 0; i < kWarmUps; ++i) MINFER_TRY(runner.run());
  for (uint32_t i = 0; i < repetitions; ++i) {
    MINFER_ASSIGN(const auto ran, runner.run());
    out.tokens = ran.tokens;
    out.seconds.push_back(ran.seconds);
    if (ran.first_token_seconds > 0) out.first_token.push_back(ran.first_token_seconds);
  }
  return out;
}

Result<void> note_peaks(Session& session) {
  Subject& s = *session.subject;
  s.host_peak_bytes = app::peak_host_memory();
  for (const auto& device : session.engine->devices()) {
    MINFER_ASSIGN(const minfer_memory memory, device->memory());
    s.device_peaks.push_back({device->info().id, memory.peak});
  }
  return {};
}

/// Measured when the engine is gone, so that its memory is free; once for all tests of the subject.
void note_ceilings(Session& session, uint32_t type, CeilingCache& cache,
                   std::span<Record> records) {
  session.engine.reset();
  for (Record& r : records)
    if (r.devices.size() == 1)
      r.ceilings = cache.of(*session.host, r.devices[0], type, session.model->file());
}

Result<void> run_subject(const Options& options, const RunConfig& config, CeilingCache& ceilings,
                         std::vector<Record>& records) {
  MINFER_ASSIGN(Session session, load(options, config));
  MINFER_ASSIGN(const ModelCost cost,
                ModelCost::create(*session.model,
                                  session.engine->options().kv_type.value_or(MINFER_TYPE_F16)));
  session.subject->quantization = type_name(cost.main_type());
  const size_t first = records.size();
  for (const app::Workload& test : options.tests) {
    MINFER_ASSIGN(auto record, run_test(session, test, cost, options.repetitions));
    log(LogLevel::kInfo, fmt::format("{}: {:.2f} t/s", test.name(), app::median(record.speeds())));
    records.push_back(std::move(record));
  }
  MINFER_TRY(note_peaks(session));
  if (options.ceilings)
    note_ceilings(session, cost.main_type(), ceilings, std::span(records).subspan(first));
  return {};
}

}  // namespace

std::vector<double> Record::speeds() const {
  std::vector<double> out;
  for (const double s : seconds) out.push_back(static_cast<double>(tokens) / s);
  return out;
}

double Record::bytes_per_second() const {
  return work.bytes / app::median(seconds);
}

double Record::flops_per_second() const {
  return work.flops / app::median(seconds);
}

Result<std::vector<Record>> run_all(const Options& options) {
  std::vector<Record> records;
  CeilingCache ceilings;
  for (const std::filesystem::path& model : options.models) {
    for (const std::vector<BackendConfig>& place : options.places) {
      RunConfig config = options.config;
      config.model = model;
      config.backends = place;
      MINFER_TRY(run_subject(options, config, ceilings, records));
    }
  }
  return records;
}

}  // namespace minfer::bench
