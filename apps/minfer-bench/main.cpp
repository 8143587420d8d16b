// minfer-bench: how fast a model runs here, with the kernels that ran.
#include <fmt/format.h>

#include <algorithm>
#include <boost/program_options.hpp>
#include <chrono>
#include <cstdio>
#include <iostream>

#include "bench.h"
#include "host.h"
#include "report.h"
#include "terminal.h"

namespace po = boost::program_options;
using namespace minfer;

namespace {

constexpr const char* kProgram = "minfer-bench";

struct Arguments {
  std::string model, prompt = "512", generate = "128", depth = "0", batch = "1", pairs;
  std::string devices, cache_type;
  std::vector<std::string> plugins, gates;
  uint32_t repetitions = 5, step_tokens = 512;
  int32_t threads = 0, gpu_layers = -1;
  bool json = false, quiet = false;
};

po::options_description describe(Arguments& a) {
  po::options_description d("options", 100);
  auto add = d.add_options();
  add("help,h", "this text");
  add("model,m", po::value(&a.model), "GGUF file");
  add("prompt,p", po::value(&a.prompt)->default_value(a.prompt),
      "prompt lengths to process, e.g. 128,512; 0 for none");
  add("gen,n", po::value(&a.generate)->default_value(a.generate), "tokens to generate, list");
  add("pg", po::value(&a.pairs), "prompt then generation in one figure, e.g. 512+128");
  add("depth,d", po::value(&a.depth)->default_value(a.depth), "positions already held, list");
  add("batch,b", po::value(&a.batch)->default_value(a.batch), "sequences generated together, list");
  add("repetitions,r", po::value(&a.repetitions)->default_value(a.repetitions), "counted runs");
  add("ubatch", po::value(&a.step_tokens)->default_value(a.step_tokens), "largest step, in tokens");
  add("device", po::value(&a.devices), "devices in order, e.g. cuda:0,cpu (default: best first)");
  add("gpu-layers", po::value(&a.gpu_layers)->default_value(a.gpu_layers),
      "layers on the first device; -1: as many as fit");
  add("cache-type", po::value(&a.cache_type), "KV cache: f32, f16 or q8_0");
  add("threads,t", po::value(&a.threads)->default_value(a.threads), "CPU threads; 0: all");
  add("plugin", po::value(&a.plugins)->composing(), "also load this plugin");
  add("gate", po::value(&a.gates)->composing(), "OWNER:NAME=VALUE, e.g. cpu:MINFER_CPU_ISA=avx2");
  add("json", po::bool_switch(&a.json), "print JSON");
  add("quiet,q", po::bool_switch(&a.quiet), "no progress, no notes");
  return d;
}

Result<GateTexts> gate_texts(const Arguments& a) {
  GateTexts texts;
  if (a.threads > 0) texts["cpu"]["MINFER_CPU_THREADS"] = std::to_string(a.threads);
  if (!a.cache_type.empty()) texts["core"]["MINFER_CACHE_TYPE"] = a.cache_type;
  for (const std::string& gate : a.gates) {
    const size_t colon = gate.find(':');
    const size_t equals = gate.find('=');
    if (colon == std::string::npos || equals == std::string::npos || equals < colon)
      return fail(ErrorCode::kUsage, fmt::format("'{}' is not OWNER:NAME=VALUE", gate), "--gate");
    texts[gate.substr(0, colon)][gate.substr(colon + 1, equals - colon - 1)] =
        gate.substr(equals + 1);
  }
  return texts;
}

Result<std::vector<bench::Test>> plan_tests(const Arguments& a) {
  MINFER_ASSIGN(const auto prompts, app::parse_numbers("--prompt", a.prompt));
  MINFER_ASSIGN(const auto generates, app::parse_numbers("--gen", a.generate));
  MINFER_ASSIGN(const auto depths, app::parse_numbers("--depth", a.depth));
  MINFER_ASSIGN(const auto batches, app::parse_numbers("--batch", a.batch));
  std::vector<bench::Test> tests;
  for (const uint32_t depth : depths) {
    for (const uint32_t p : prompts)
      if (p > 0) tests.push_back({p, 0, depth, 1});
    for (const uint32_t b : batches)
      for (const uint32_t n : generates)
        if (n > 0 && b > 0) tests.push_back({0, n, depth, b});
    for (const std::string& pair : app::split_list(a.pairs)) {
      const size_t plus = pair.find('+');
      if (plus == std::string::npos)
        return fail(ErrorCode::kUsage, fmt::format("'{}' is not PROMPT+GEN", pair), "--pg");
      MINFER_ASSIGN(const auto p, app::parse_numbers("--pg", pair.substr(0, plus)));
      MINFER_ASSIGN(const auto n, app::parse_numbers("--pg", pair.substr(plus + 1)));
      if (p.empty() || n.empty())
        return fail(ErrorCode::kUsage, fmt::format("'{}' is not PROMPT+GEN", pair), "--pg");
      tests.push_back({p[0], n[0], depth, 1});
    }
  }
  if (tests.empty()) return fail(ErrorCode::kUsage, "nothing to measure", "", "see --help");
  return tests;
}

Result<int> run(const Arguments& a) {
  if (a.model.empty()) return fail(ErrorCode::kUsage, "no model given", "--model", "see --help");
  if (a.repetitions == 0)
    return fail(ErrorCode::kUsage, "0 runs", "--repetitions", "give at least 1");
  MINFER_ASSIGN(const auto tests, plan_tests(a));
  MINFER_ASSIGN(const GateTexts gates, gate_texts(a));
  MINFER_ASSIGN(auto host, app::open_host(a.plugins, gates));
  MINFER_ASSIGN(auto file, GgufFile::open(a.model));
  MINFER_ASSIGN(auto model, Model::create(std::move(file)));

  EngineOptions options;
  options.devices = app::split_list(a.devices);
  options.gpu_layers = a.gpu_layers;
  options.max_step_tokens = a.step_tokens;
  options.context = 1;
  options.max_sequences = 1;
  for (const bench::Test& t : tests) {
    options.context = std::max(options.context, bench::positions(t) + 1);
    options.max_sequences = std::max(options.max_sequences, t.batch);
  }
  options.on_progress = app::progress_line(a.quiet);
  const auto start = std::chrono::steady_clock::now();
  MINFER_ASSIGN(auto engine, Engine::create(std::move(model), *host, options));
  bench::Subject subject{
      .model = a.model,
      .name = engine->model().hparams().name,
      .architecture = engine->model().hparams().architecture,
      .weight_bytes = 0,
      .load_seconds =
          std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(),
      .repetitions = a.repetitions};
  for (const MemoryPlan::Entry& e : engine->memory_plan().devices)
    subject.weight_bytes += e.weights;

  std::vector<bench::Measurement> measurements;
  for (const bench::Test& test : tests) {
    MINFER_ASSIGN(auto measured, bench::run_test(*engine, test, a.repetitions));
    if (!a.quiet)
      fmt::print(stderr, "{}: {}: {:.2f} t/s\n", kProgram, test.name(), measured.median());
    measurements.push_back(std::move(measured));
  }
  const std::string text =
      a.json ? bench::json_text(subject, measurements) : bench::table_text(subject, measurements);
  std::fputs(text.c_str(), stdout);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  const po::options_description options = describe(arguments);
  try {
    po::variables_map values;
    po::store(po::parse_command_line(argc, argv, options), values);
    if (values.count("help")) {
      std::cout
          << "usage: minfer-bench -m MODEL.gguf [options]\n\n"
             "Measures prompt processing and generation on random tokens; figures are tokens per\n"
             "second, the median of the counted runs with their range.\n\n"
          << options;
      return 0;
    }
    po::notify(values);
  } catch (const po::error& e) {
    return app::report(kProgram, {ErrorCode::kUsage, e.what(), "", "see --help"});
  }
  app::log_to_stderr(kProgram, arguments.quiet ? LogLevel::kError : LogLevel::kInfo);
  const auto status = run(arguments);
  return status ? *status : app::report(kProgram, status.error());
}
