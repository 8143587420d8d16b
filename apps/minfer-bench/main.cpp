// minfer-bench: how fast a model runs here, with the kernels that ran.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "bench.h"
#include "files.h"
#include "options.h"
#include "place.h"
#include "report.h"
#include "terminal.h"

using namespace minfer;

namespace {

constexpr const char* kProgram = "minfer-bench";

/// Room for the largest test; the context is not bound to what the model was trained for.
EngineOptions engine_options(const bench::Options& options) {
  EngineOptions out = app::engine_options(options.config, options.quiet);
  out.context = 1;
  for (const bench::Test& t : options.tests) {
    out.context = std::max(out.context, bench::positions(t) + 1);
    out.max_sequences = std::max(out.max_sequences, t.batch);
  }
  return out;
}

Result<int> measure(const bench::Options& options) {
  MINFER_ASSIGN(auto host, app::open_host(options.config, options.gates));
  const auto start = std::chrono::steady_clock::now();
  MINFER_ASSIGN(auto file, GgufFile::open(options.config.model));
  MINFER_ASSIGN(auto model, Model::create(std::move(file)));
  MINFER_ASSIGN(auto engine, Engine::create(std::move(model), *host, engine_options(options)));
  const std::chrono::duration<double> load = std::chrono::steady_clock::now() - start;
  bench::Subject subject{.model = options.config.model.string(),
                         .name = engine->model().hparams().name,
                         .architecture = engine->model().hparams().architecture,
                         .load_seconds = load.count(),
                         .repetitions = options.repetitions};
  for (const MemoryPlan::Entry& e : engine->memory_plan().devices)
    subject.weight_bytes += e.weights;

  std::vector<bench::Measurement> measurements;
  for (const bench::Test& test : options.tests) {
    MINFER_ASSIGN(auto measured, bench::run_test(*engine, test, options.repetitions));
    log(LogLevel::kInfo, fmt::format("{}: {:.2f} t/s", test.name(), measured.median()));
    measurements.push_back(std::move(measured));
  }
  return app::print(options.json ? bench::json_text(subject, measurements)
                                 : bench::table_text(subject, measurements));
}

Result<int> run_command(int argc, char** argv) {
  MINFER_ASSIGN(const bench::Options options, bench::parse_options(argc, argv));
  if (options.help) return app::print(bench::help_text());
  if (options.version) return app::print("minfer " MINFER_RELEASE "\n");
  app::log_to_stderr(kProgram, options.quiet ? LogLevel::kError : LogLevel::kInfo);
  return measure(options);
}

}  // namespace

int main(int argc, char** argv) {
  return app::run_program(kProgram, argc, argv, run_command);
}
