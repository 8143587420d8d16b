// minfer-run: from a prompt and a config to text on standard output.
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <fstream>

#include "generate.h"
#include "host.h"
#include "interrupt.h"
#include "lists.h"
#include "options.h"
#include "prompt.h"
#include "statistics.h"
#include "terminal.h"

using namespace minfer;

namespace {

constexpr const char* kProgram = "minfer-run";
constexpr int kInterruptedStatus = 130;

/// Writes all of `text` to standard output; false when nobody reads it any more.
bool write_out(std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = write(STDOUT_FILENO, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    text.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

std::optional<uint32_t> kv_type(CacheType type) {
  switch (type) {
    case CacheType::kF32:
      return MINFER_TYPE_F32;
    case CacheType::kF16:
      return MINFER_TYPE_F16;
    case CacheType::kQ8_0:
      return MINFER_TYPE_Q8_0;
    case CacheType::kAuto:
      break;
  }
  return std::nullopt;
}

EngineOptions engine_options(const run::Options& options, const Model& model) {
  const RunConfig& config = options.config;
  EngineOptions out;
  for (const BackendConfig& backend : config.backends) out.devices.push_back(backend.device_id());
  out.gpu_layers = config.gpu_layers;
  out.context = config.context ? config.context : model.hparams().context_length;
  if (out.context > model.hparams().context_length)
    log(LogLevel::kWarn,
        fmt::format("a context of {} is more than the {} the model was trained for", out.context,
                    model.hparams().context_length));
  out.max_sequences = config.max_sequences;
  out.max_step_tokens = config.batch;
  out.kv_type = kv_type(config.cache_type);
  out.on_progress = app::progress_line(options.quiet);
  return out;
}

Result<std::unique_ptr<PluginHost>> open_host(const RunConfig& config) {
  std::vector<std::string> files;
  for (const auto& plugin : config.plugins) files.push_back(plugin.string());
  for (const BackendConfig& backend : config.backends)
    if (!backend.plugin.empty()) files.push_back(backend.plugin.string());
  return app::open_host(files, config.all_gates());
}

Result<void> write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  if (!file.flush()) return fail(ErrorCode::kIo, "could not be written", path);
  return {};
}

/// Placement, memory, graph: what can be told before weights are read.
Result<void> report_plan(Engine& engine, const run::Options& options) {
  if (!options.dump_graph.empty()) {
    MINFER_ASSIGN(const std::string dot, engine.dot(1));
    MINFER_TRY(write_file(options.dump_graph, dot));
  }
  if (options.dry_run) write_out(app::memory_text(engine));
  return {};
}

Result<int> answer(run::Options& options, run::Interrupt& interrupt) {
  std::string prompt;
  if (!options.only_reports()) {
    MINFER_ASSIGN(prompt, run::read_prompt(options));
  }
  MINFER_ASSIGN(auto host, open_host(options.config));
  if (options.list_devices) write_out(app::device_list(*host));
  if (options.list_gates) write_out(gates_table(host->gates(), GateTableFormat::kPlain));
  if (options.list_devices || options.list_gates) return 0;
  if (options.config.model.empty())
    return fail(ErrorCode::kUsage, "no model", "", "give --config NAME or --model FILE.gguf");

  const auto start = std::chrono::steady_clock::now();
  MINFER_ASSIGN(auto file, GgufFile::open(options.config.model));
  MINFER_ASSIGN(auto model, Model::create(file));
  MINFER_ASSIGN(auto engine, Engine::plan(model, *host, engine_options(options, *model)));
  MINFER_TRY(report_plan(*engine, options));
  if (options.dry_run) {
    if (options.explain) {
      MINFER_ASSIGN(const std::string text, app::explain_text(*engine, 1));
      fmt::print(stderr, "{}", text);
    }
    return 0;
  }
  MINFER_ASSIGN(auto tokenizer, Tokenizer::create(*file));
  MINFER_ASSIGN(const auto tokens, run::prompt_tokens(options.config, *file, *tokenizer, prompt));
  MINFER_TRY(engine->load());
  const double load_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (options.explain) {
    MINFER_ASSIGN(const std::string text, app::explain_text(*engine, 1));
    fmt::print(stderr, "{}", text);
  }
  const bool op_timing = host->gates().value("MINFER_OP_TIMING") != 0;
  engine->set_timing(op_timing);

  interrupt.on_request([&] { engine->cancel(); });
  const run::TextSink sink = [&](std::string_view text) { return options.json || write_out(text); };
  auto generation = run::generate(*engine, tokenizer, tokens, options, interrupt, sink);
  interrupt.on_request({});
  if (!generation) return tl::make_unexpected(std::move(generation).error());

  if (options.json)
    write_out(run::json_text(*generation, *engine, load_seconds));
  else if (generation->finish != run::Finish::kClosed && !generation->text.ends_with('\n'))
    write_out("\n");
  if (generation->finish == run::Finish::kContext)
    log(LogLevel::kWarn, fmt::format("the context of {} positions is full; generation stopped",
                                     engine->options().context));
  const bool interrupted = generation->finish == run::Finish::kInterrupted;
  if (options.timing || (interrupted && !options.quiet))
    fmt::print(stderr, "{}", run::timing_text(*generation, load_seconds));
  if (op_timing) fmt::print(stderr, "{}", run::op_timing_text(*engine));
  return interrupted ? kInterruptedStatus : 0;
}

}  // namespace

int main(int argc, char** argv) {
  signal(SIGPIPE, SIG_IGN);
  auto options = run::parse_options(argc, argv);
  if (!options) return app::report(kProgram, options.error());
  if (options->help) return write_out(run::help_text()) ? 0 : 1;
  if (options->version) return write_out("minfer " MINFER_RUN_VERSION "\n") ? 0 : 1;
  app::log_to_stderr(kProgram, options->quiet     ? LogLevel::kError
                               : options->verbose ? LogLevel::kDebug
                                                  : LogLevel::kInfo);
  run::Interrupt interrupt;
  const auto status = answer(*options, interrupt);
  return status ? *status : app::report(kProgram, status.error());
}
