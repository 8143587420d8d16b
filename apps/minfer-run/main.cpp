// minfer-run: from a prompt and a config to text on standard output.
#include <fmt/format.h>

#include <boost/json.hpp>
#include <chrono>

#include "files.h"
#include "generate.h"
#include "graphviz.h"
#include "host.h"
#include "interrupt.h"
#include "lists.h"
#include "options.h"
#include "prompt.h"
#include "session.h"
#include "statistics.h"
#include "terminal.h"

using namespace minfer;

namespace {

constexpr const char* kProgram = "minfer-run";
constexpr int kInterruptedStatus = 130;

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

Result<int> print(const boost::json::object& object) {
  return app::print(boost::json::serialize(object) + "\n");
}

/// A model may call itself anything: control characters stay out of the log.
std::string one_line(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) c = '?';
  return text;
}

tl::unexpected<Error> usage(const char* what, const char* hint) {
  app::say(run::usage_text());
  return fail(ErrorCode::kUsage, what, "", hint);
}

Result<int> list(const run::Options& options) {
  MINFER_ASSIGN(const auto host, app::open_host(options.config, options.gates));
  if (options.json) {
    boost::json::object all;
    if (options.list_devices) all = app::device_list_json(*host);
    if (options.list_gates) all["gates"] = app::gate_list_json(host->gates());
    return print(all);
  }
  std::string text;
  if (options.list_devices) text += app::device_list(*host);
  if (options.list_gates) text += gates_table(host->gates(), GateTableFormat::kPlain);
  return app::print(text);
}

Result<void> dump_graph(Engine& engine, const run::Options& options) {
  if (options.dump_graph.empty()) return {};
  MINFER_ASSIGN(const std::string dot, engine.dot(1));
  return run::write_graph(options.dump_graph, dot);
}

/// Placement, memory, graph: what can be told before weights are read.
Result<int> dry_run(const run::Options& options) {
  MINFER_ASSIGN(auto host, app::open_host(options.config, options.gates));
  MINFER_ASSIGN(const auto session, run::plan_session(std::move(host), options));
  MINFER_TRY(dump_graph(*session.engine, options));
  if (options.json) {
    MINFER_ASSIGN(const auto plan, app::plan_json(*session.engine, options.explain));
    return print(plan);
  }
  std::string text = app::memory_text(*session.engine);
  if (options.explain) {
    MINFER_ASSIGN(const std::string explained, app::explain_text(*session.engine));
    text += explained;
  }
  return app::print(text);
}

/// Writes what a run leaves behind its text; the exit status.
Result<int> conclude(const run::Session& session, const run::Options& options,
                     const run::Generation& generation, const run::StartUp& start_up) {
  Engine& engine = *session.engine;
  if (options.json) {
    MINFER_TRY(app::write_out(run::json_text(generation, engine, start_up)));
  } else if (generation.finish != run::Finish::kClosed && !generation.text.empty() &&
             !generation.text.ends_with('\n')) {
    MINFER_TRY(app::write_out("\n"));
  }
  if (generation.finish == run::Finish::kContext)
    log(LogLevel::kWarn, fmt::format("the context of {} positions is full; generation stopped",
                                     engine.options().context));
  if (session.trace) MINFER_TRY(app::write_file(options.trace, session.trace->chrome_json()));
  const bool interrupted = generation.finish == run::Finish::kInterrupted;
  if (options.timing || (interrupted && !options.quiet))
    app::say(run::timing_text(generation, engine, start_up));
  if (session.host->gates().value("MINFER_OP_TIMING") != 0) app::say(run::op_timing_text(engine));
  return interrupted ? kInterruptedStatus : 0;
}

Result<int> answer(const run::Options& options, run::Interrupt& interrupt) {
  if (run::lacks_prompt(options))
    return usage("no prompt",
                 "give --prompt TEXT or --prompt-file FILE, or pipe text to standard input");
  MINFER_ASSIGN(const std::string prompt, run::read_prompt(options));
  for (const std::string& file : {options.dump_logits, options.trace})
    if (!file.empty()) MINFER_TRY(app::check_writable(file));

  const auto start = Clock::now();
  MINFER_ASSIGN(auto host, app::open_host(options.config, options.gates));
  MINFER_ASSIGN(const auto session, run::plan_session(std::move(host), options));
  Engine& engine = *session.engine;
  run::StartUp start_up{.plan_seconds = seconds_since(start)};
  log(LogLevel::kDebug, fmt::format("planned after {:.0f} ms", start_up.plan_seconds * 1e3));
  MINFER_TRY(dump_graph(engine, options));
  MINFER_ASSIGN(auto tokenizer, Tokenizer::create(*session.file));
  MINFER_ASSIGN(const auto tokens,
                run::prompt_tokens(options.config, *session.file, *tokenizer, prompt));
  MINFER_TRY(run::check_prompt(engine, tokens));
  MINFER_ASSIGN(auto sampler,
                Sampler::create(options.config.sampling, session.model->hparams().n_vocab,
                                engine.options().context));
  log(LogLevel::kInfo, one_line(run::session_line(session)));
  log(LogLevel::kDebug, fmt::format("{} tokens of prompt after {:.0f} ms", tokens.size(),
                                    seconds_since(start) * 1e3));
  MINFER_TRY(engine.load());
  start_up.load_seconds = seconds_since(start);
  if (session.trace) engine.set_timing(true);
  if (options.explain) {
    MINFER_ASSIGN(const std::string text, app::explain_text(engine));
    app::say(text);
  }

  interrupt.on_request([&] { engine.cancel(); });
  log(LogLevel::kDebug, fmt::format("loaded after {:.0f} ms", start_up.load_seconds * 1e3));
  const run::TextSink sink = [&](std::string_view text) -> Result<bool> {
    if (options.json) return true;
    return app::write_out(text);
  };
  auto generation = run::generate(engine, tokenizer, tokens, *sampler, options, interrupt, sink);
  interrupt.on_request({});
  if (!generation) return tl::make_unexpected(std::move(generation).error());
  return conclude(session, options, *generation, start_up);
}

Result<int> run_with(const run::Options& options) {
  run::Interrupt interrupt;
  if (options.list_devices || options.list_gates) return list(options);
  if (options.config.model.empty()) {
    if (!options.config.file.empty())
      return fail(ErrorCode::kConfig, "names no model", options.config.file.string(),
                  "add the key 'model', or give --model FILE.gguf");
    return usage("no model", "give --config NAME or --model FILE.gguf");
  }
  return options.dry_run ? dry_run(options) : answer(options, interrupt);
}

Result<int> run_command(int argc, char** argv) {
  MINFER_ASSIGN(const run::Options options, run::parse_options(argc, argv));
  if (options.help) return app::print(run::help_text());
  if (options.version) return app::print("minfer " MINFER_RELEASE "\n");
  app::log_to_stderr(kProgram, options.quiet     ? LogLevel::kError
                               : options.verbose ? LogLevel::kDebug
                                                 : LogLevel::kInfo);
  return run_with(options);
}

}  // namespace

int main(int argc, char** argv) {
  return app::run_program(kProgram, argc, argv, run_command);
}
