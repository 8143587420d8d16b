#include "options.h"

#include <fmt/format.h>

#include <limits>
#include <sstream>

#include "files.h"
#include "flags.h"
#include "place.h"

namespace po = boost::program_options;

namespace minfer::run {
namespace {

using app::Flags;
using app::one;
using app::several;

constexpr size_t kMaxConfigBytes = size_t{1} << 20;
constexpr size_t kMaxStopBytes = 1024;
constexpr size_t kMaxStops = 64;
constexpr uint32_t kMaxBatch = 65536;
constexpr unsigned kHelpWidth = 100;
constexpr int32_t kMaxInt = std::numeric_limits<int32_t>::max();

po::options_description what_to_run() {
  po::options_description d("what to run", kHelpWidth);
  auto add = d.add_options();
  add("config,c", one("FILE"), "YAML file, or the name of a shipped one");
  add("model,m", one("FILE"), "GGUF file (instead of the config's)");
  add("prompt,p", one("TEXT"), "what to answer; without it, standard input is read");
  add("prompt-file,f", one("FILE"), "file with the prompt; a newline at its end is not part of it");
  add("system", one("TEXT"), "system prompt [none]");
  add("no-template", "give the prompt to the model as it is");
  add("ctx", one("N"),
      "positions of context [4096, or what the model was trained for where that is less]; 0: what "
      "the model was trained for");
  add("batch", one("N"), "tokens of one step at most [512]");
  add("tokens,n", one("N"), "tokens to generate [-1: until the model ends or the context is full]");
  return d;
}

po::options_description sampling_flags() {
  po::options_description d("sampling, in this order", kHelpWidth);
  auto add = d.add_options();
  add("logit-bias", several("ID=X"), "added to the logit of a token id; -inf forbids it");
  add("repeat-penalty", one("X"), "[1: off]");
  add("repeat-last-n", one("N"), "tokens that penalties look back on [64]; -1: all, 0: off");
  add("frequency-penalty", one("X"), "[0: off]");
  add("presence-penalty", one("X"), "[0: off]");
  add("top-k", one("N"), "[40]; 0: off");
  add("typical-p", one("X"), "[1: off]");
  add("top-p", one("X"), "[0.95]; 1: off");
  add("min-p", one("X"), "[0.05]; 0: off");
  add("temp", one("X"), "temperature [0.8]; 0: greedy");
  add("seed,s", one("N"), "same seed, same text [drawn, and shown by --timing and --json]");
  add("stop", several("TEXT"), "end before this text; may be given more than once");
  add("ignore-end", "go on after the model's end token");
  return d;
}

po::options_description output_flags() {
  po::options_description d("output", kHelpWidth);
  auto add = d.add_options();
  add("json", "one JSON object instead of text; also for lists, --dry-run and errors");
  add("timing", "times, token rates and memory on stderr");
  add("explain", "placement and the kernel of every node on stderr (with --dry-run, on stdout)");
  add("dry-run", "print the memory that would be taken, and stop");
  add("dump-graph", one("FILE"),
      "write the graph of a step of one token as Graphviz DOT, or, named .svg, drawn by dot");
  add("trace", one("FILE"),
      "write what ran when, in Chrome's trace format; every node is timed, which costs speed");
  add("dump-logits", one("FILE"), "write the logits after the prompt as raw f32");
  add("quiet,q", "errors only");
  add("verbose,v", "also debug lines");
  return d;
}

po::options_description describe() {
  po::options_description other("other", kHelpWidth);
  other.add_options()("list-devices", "every device, and every plugin file not used, with reasons")(
      "list-gates", "every gate with value and source")("version", "print the version")(
      "help,h", "print this");
  po::options_description all;
  all.add(what_to_run())
      .add(app::place_flags())
      .add(sampling_flags())
      .add(output_flags())
      .add(other);
  return all;
}

/// A config whose model is not looked for.
Result<RunConfig> parse_file(const std::filesystem::path& path) {
  MINFER_ASSIGN(const std::string text, app::read_file(path, kMaxConfigBytes));
  return parse_config(text, path);
}

/// A model on the command line replaces the config's, which then need not exist.
Result<void> take_config(const Flags& flags, RunConfig& config) {
  if (flags.has("config")) {
    if (flags.text("config").empty())
      return fail(ErrorCode::kUsage, "the file's name is empty", "--config");
    MINFER_ASSIGN(const auto file, find_config(flags.text("config")));
    if (flags.has("model")) {
      MINFER_ASSIGN(config, parse_file(file));
    } else {
      MINFER_ASSIGN(config, load_config(file));
    }
  }
  if (!flags.has("model")) return {};
  config.model_text = flags.text("model");
  if (config.model_text.empty())
    return fail(ErrorCode::kUsage, "the file's name is empty", "--model");
  MINFER_ASSIGN(config.model, find_model(config.model_text, {}));
  return {};
}

Result<void> take_biases(const Flags& flags, SamplerParams& sampling) {
  for (const std::string& bias : flags.texts("logit-bias")) {
    const size_t equals = bias.find('=');
    int32_t token = 0;
    float value = 0;
    const char* end = bias.data() + bias.size();
    const char* middle = bias.data() + std::min(equals, bias.size());
    if (equals == std::string::npos || std::from_chars(bias.data(), middle, token).ptr != middle ||
        std::from_chars(middle + 1, end, value).ptr != end)
      return fail(ErrorCode::kUsage, fmt::format("'{}' is not ID=X", bias), "--logit-bias",
                  "a token id and a number, e.g. 29=-inf");
    sampling.logit_bias.emplace_back(token, value);
  }
  return {};
}

/// Takes one flag of the sampler; what the sampler says against its value is said of the flag.
template <class T>
Result<void> take_sampling(const Flags& flags, const char* name, T& out, SamplerParams& all) {
  if (!flags.has(name)) return {};
  if constexpr (std::is_floating_point_v<T>) {
    MINFER_TRY(flags.take(name, out));
  } else {
    MINFER_TRY(flags.take<T>(name, out, std::numeric_limits<T>::min(), kMaxInt));
  }
  auto checked = all.check();
  if (checked) return {};
  return fail(ErrorCode::kUsage, std::move(checked.error().what), fmt::format("--{}", name),
              std::move(checked.error().hint));
}

Result<void> take_sampler(const Flags& flags, SamplerParams& s) {
  MINFER_TRY(take_sampling(flags, "repeat-penalty", s.repeat_penalty, s));
  MINFER_TRY(take_sampling(flags, "repeat-last-n", s.repeat_last_n, s));
  MINFER_TRY(take_sampling(flags, "frequency-penalty", s.frequency_penalty, s));
  MINFER_TRY(take_sampling(flags, "presence-penalty", s.presence_penalty, s));
  MINFER_TRY(take_sampling(flags, "top-k", s.top_k, s));
  MINFER_TRY(take_sampling(flags, "typical-p", s.typical_p, s));
  MINFER_TRY(take_sampling(flags, "top-p", s.top_p, s));
  MINFER_TRY(take_sampling(flags, "min-p", s.min_p, s));
  MINFER_TRY(take_sampling(flags, "temp", s.temperature, s));
  MINFER_TRY(take_biases(flags, s));
  if (auto checked = s.check(); !checked)
    return fail(ErrorCode::kUsage, std::move(checked.error().what), "--logit-bias");
  if (!flags.has("seed")) return {};
  uint64_t seed = 0;
  MINFER_TRY(flags.take<uint64_t>("seed", seed, 0, std::numeric_limits<uint64_t>::max()));
  s.seed = seed;
  return {};
}

Result<void> take_stops(const Flags& flags, std::vector<std::string>& stops) {
  for (std::string& stop : flags.texts("stop")) {
    if (stop.empty() || stop.size() > kMaxStopBytes)
      return fail(ErrorCode::kUsage,
                  fmt::format("{} bytes; a stop text has 1 to {}", stop.size(), kMaxStopBytes),
                  "--stop");
    stops.push_back(std::move(stop));
  }
  if (stops.size() > kMaxStops)
    return fail(ErrorCode::kUsage,
                fmt::format("{} stop texts, {} are allowed", stops.size(), kMaxStops), "--stop");
  return {};
}

Result<void> lay_over(const Flags& flags, Options& options) {
  RunConfig& config = options.config;
  flags.take("system", config.system);
  if (flags.has("no-template")) config.use_template = false;
  if (flags.has("ctx")) config.context_given = true;
  MINFER_TRY(flags.take<uint32_t>("ctx", config.context, 0, kMaxContext));
  MINFER_TRY(flags.take<int32_t>("tokens", config.max_tokens, -1, kMaxInt));
  MINFER_TRY(flags.take<uint32_t>("batch", config.batch, 1, kMaxBatch));
  MINFER_TRY(app::take_place(flags, config, options.gates));
  MINFER_TRY(take_sampler(flags, config.sampling));
  return take_stops(flags, config.stop);
}

Result<void> check_together(const Flags& flags, const Options& options) {
  if (options.prompt && options.prompt_file)
    return fail(ErrorCode::kUsage, "two prompts", "--prompt and --prompt-file", "give one");
  if (options.quiet && options.verbose)
    return fail(ErrorCode::kUsage, "contradict each other", "--quiet and --verbose", "give one");
  if (options.dry_run && flags.has("dump-logits"))
    return fail(ErrorCode::kUsage, "a dry run computes no logits", "--dump-logits",
                "leave out --dry-run");
  if (options.dry_run && flags.has("trace"))
    return fail(ErrorCode::kUsage, "a dry run has nothing to trace", "--trace",
                "leave out --dry-run");
  for (const char* name : {"prompt-file", "dump-graph", "dump-logits", "trace"})
    if (flags.has(name) && flags.text(name).empty())
      return fail(ErrorCode::kUsage, "the file's name is empty", fmt::format("--{}", name));
  return {};
}

}  // namespace

Result<Options> parse_options(int argc, char** argv) {
  MINFER_ASSIGN(const Flags flags, Flags::parse(argc, argv, describe()));
  Options out;
  out.help = flags.has("help");
  out.version = flags.has("version");
  if (out.help || out.version) return out;
  out.list_devices = flags.has("list-devices");
  out.list_gates = flags.has("list-gates");
  out.dry_run = flags.has("dry-run");
  out.explain = flags.has("explain");
  out.json = flags.has("json");
  out.timing = flags.has("timing");
  out.quiet = flags.has("quiet");
  out.verbose = flags.has("verbose");
  out.ignore_end = flags.has("ignore-end");
  if (flags.has("prompt")) out.prompt = flags.text("prompt");
  if (flags.has("prompt-file")) out.prompt_file = flags.text("prompt-file");
  out.dump_graph = flags.text("dump-graph");
  out.dump_logits = flags.text("dump-logits");
  out.trace = flags.text("trace");
  MINFER_TRY(check_together(flags, out));
  MINFER_TRY(take_config(flags, out.config));
  MINFER_TRY(lay_over(flags, out));
  return out;
}

std::string usage_text() {
  return "usage: minfer-run --config NAME.yaml --prompt TEXT [options]\n"
         "       minfer-run --model FILE.gguf --prompt TEXT [options]\n";
}

std::string help_text() {
  std::ostringstream out;
  out << usage_text()
      << "\nRuns a GGUF model and streams its answer to standard output. Values in [] are the "
         "defaults\n"
         "where neither flag nor config says otherwise; docs/config.md describes the YAML, "
         "docs/errors.md\n"
         "the exit status.\n"
      << describe();
  return out.str();
}

}  // namespace minfer::run
