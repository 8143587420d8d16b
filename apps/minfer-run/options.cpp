#include "options.h"

#include <fmt/format.h>

#include <boost/program_options.hpp>
#include <charconv>
#include <fstream>
#include <iterator>
#include <sstream>

#include "host.h"

namespace po = boost::program_options;

namespace minfer::run {
namespace {

/// Adds the flags; values are read from the variables map so that an absent flag leaves the
/// config's value alone.
po::options_description describe() {
  const auto text = [] { return po::value<std::string>(); };
  const auto real = [] { return po::value<float>(); };
  const auto whole = [] { return po::value<int32_t>(); };
  const auto count = [] { return po::value<uint32_t>(); };
  const auto list = [] { return po::value<std::vector<std::string>>()->composing(); };
  po::options_description all("options", 100, 50);
  po::options_description what("what to run");
  what.add_options()("config,c", text(), "YAML file, or the name of a shipped one")(
      "model,m", text(), "GGUF file (instead of the config's)")(
      "prompt,p", text(), "what to answer; without it, standard input is read")(
      "prompt-file,f", text(), "file with the prompt")("system", text(), "system prompt")(
      "no-template", "give the prompt to the model as it is")(
      "ctx", count(), "positions of context [4096]; 0: what the model was trained for")(
      "tokens,n", whole(), "tokens to generate [-1: until the model ends or the context is full]");
  po::options_description where("where to run it");
  where.add_options()("device", text(), "devices in order, e.g. cuda:0,cpu [best first]")(
      "gpu-layers", whole(), "layers on the first device [-1: as many as fit]")(
      "threads,t", count(), "CPU threads [0: all]")("cache-type", text(),
                                                    "KV cache: auto, f32, f16 or q8_0 [auto]")(
      "batch", count(), "tokens of one step at most [512]")("plugin", list(),
                                                            "also load this plugin file")(
      "gate", list(), "OWNER:NAME=VALUE, e.g. cpu:MINFER_CPU_ISA=avx2");
  po::options_description sampling("sampling, in this order");
  sampling.add_options()("logit-bias", list(), "TOKEN=VALUE added to a token's logit")(
      "repeat-penalty", real(), "1: off [1]")("repeat-last-n", whole(),
                                              "tokens that penalties look back on [64]")(
      "frequency-penalty", real(), "[0]")("presence-penalty", real(), "[0]")(
      "top-k", whole(), "0: off [40]")("typical-p", real(), "1: off [1]")(
      "top-p", real(), "1: off [0.95]")("min-p", real(), "0: off [0.05]")(
      "temp", real(), "temperature; 0: greedy [0.8]")("seed,s", po::value<uint64_t>(),
                                                      "same seed, same text [drawn]")(
      "stop", list(), "end before this text (may be given more than once)")(
      "ignore-end", "go on after the model's end token");
  po::options_description output("output");
  output.add_options()("json", "one JSON object instead of streamed text")(
      "timing", "times and token rates on stderr")(
      "explain", "placement and the kernel of every node, on stderr")(
      "dry-run", "placement and memory, then stop")("dump-graph", text(),
                                                    "write the graph as Graphviz DOT")(
      "dump-logits", text(), "write the logits after the prompt as raw f32")(
      "quiet,q", "errors only")("verbose,v", "also debug lines");
  po::options_description other("other");
  other.add_options()("list-devices", "every device, and every plugin file not used, with reasons")(
      "list-gates", "every gate with value and source")("version", "version")("help,h",
                                                                              "this text");
  all.add(what).add(where).add(sampling).add(output).add(other);
  return all;
}

/// A config whose model is not looked for.
Result<RunConfig> parse_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return fail(ErrorCode::kIo, "could not be read", path.string());
  return parse_config(std::string(std::istreambuf_iterator<char>(in), {}), path);
}

template <class T, class Target>
void take(const po::variables_map& flags, const char* name, Target& target) {
  if (flags.count(name)) target = flags[name].as<T>();
}

std::vector<std::string> texts(const po::variables_map& flags, const char* name) {
  return flags.count(name) ? flags[name].as<std::vector<std::string>>()
                           : std::vector<std::string>{};
}

Result<void> take_biases(const po::variables_map& flags, SamplerParams& sampling) {
  for (const std::string& bias : texts(flags, "logit-bias")) {
    const size_t equals = bias.find('=');
    int32_t token = 0;
    float value = 0;
    const char* end = bias.data() + bias.size();
    const char* middle = bias.data() + std::min(equals, bias.size());
    if (equals == std::string::npos || std::from_chars(bias.data(), middle, token).ptr != middle ||
        std::from_chars(middle + 1, end, value).ptr != end)
      return fail(ErrorCode::kUsage, fmt::format("'{}' is not TOKEN=VALUE", bias), "--logit-bias",
                  "a token id and a number, e.g. 29=-inf");
    sampling.logit_bias.emplace_back(token, value);
  }
  return {};
}

Result<void> take_gates(const po::variables_map& flags, RunConfig& config) {
  for (const std::string& gate : texts(flags, "gate")) {
    const size_t colon = gate.find(':');
    const size_t equals = gate.find('=');
    if (colon == std::string::npos || equals == std::string::npos || equals < colon)
      return fail(ErrorCode::kUsage, fmt::format("'{}' is not OWNER:NAME=VALUE", gate), "--gate");
    config.gates[gate.substr(0, colon)][gate.substr(colon + 1, equals - colon - 1)] =
        gate.substr(equals + 1);
  }
  return {};
}

Result<void> take_devices(const po::variables_map& flags, RunConfig& config) {
  if (!flags.count("device")) return {};
  config.backends.clear();
  for (const std::string& id : app::split_list(flags["device"].as<std::string>())) {
    BackendConfig backend;
    const size_t colon = id.find(':');
    backend.name = id.substr(0, colon);
    if (colon != std::string::npos) {
      MINFER_ASSIGN(const auto number, app::parse_numbers("--device", id.substr(colon + 1)));
      if (number.size() != 1)
        return fail(ErrorCode::kUsage, fmt::format("'{}' is not a device", id), "--device",
                    "e.g. cpu, cuda or cuda:1");
      backend.device = number[0];
    }
    config.backends.push_back(std::move(backend));
  }
  return {};
}

Result<void> take_cache_type(const po::variables_map& flags, RunConfig& config) {
  if (!flags.count("cache-type")) return {};
  const std::string name = flags["cache-type"].as<std::string>();
  if (name == "auto")
    config.cache_type = CacheType::kAuto;
  else if (name == "f32")
    config.cache_type = CacheType::kF32;
  else if (name == "f16")
    config.cache_type = CacheType::kF16;
  else if (name == "q8_0")
    config.cache_type = CacheType::kQ8_0;
  else
    return fail(ErrorCode::kUsage, fmt::format("unknown cache type '{}'", name), "--cache-type",
                "auto, f32, f16 or q8_0");
  return {};
}

Result<void> lay_over(const po::variables_map& flags, RunConfig& config) {
  if (flags.count("model")) {
    config.model_text = flags["model"].as<std::string>();
    MINFER_ASSIGN(config.model, find_model(config.model_text, {}));
  }
  take<std::string>(flags, "system", config.system);
  if (flags.count("no-template")) config.use_template = false;
  take<uint32_t>(flags, "ctx", config.context);
  take<int32_t>(flags, "tokens", config.max_tokens);
  take<int32_t>(flags, "gpu-layers", config.gpu_layers);
  take<uint32_t>(flags, "threads", config.threads);
  take<uint32_t>(flags, "batch", config.batch);
  for (const std::string& plugin : texts(flags, "plugin"))
    config.plugins.push_back(std::filesystem::absolute(plugin).lexically_normal());
  SamplerParams& s = config.sampling;
  take<float>(flags, "repeat-penalty", s.repeat_penalty);
  take<int32_t>(flags, "repeat-last-n", s.repeat_last_n);
  take<float>(flags, "frequency-penalty", s.frequency_penalty);
  take<float>(flags, "presence-penalty", s.presence_penalty);
  take<int32_t>(flags, "top-k", s.top_k);
  take<float>(flags, "typical-p", s.typical_p);
  take<float>(flags, "top-p", s.top_p);
  take<float>(flags, "min-p", s.min_p);
  take<float>(flags, "temp", s.temperature);
  take<uint64_t>(flags, "seed", s.seed);
  for (std::string& stop : texts(flags, "stop")) config.stop.push_back(std::move(stop));
  MINFER_TRY(take_biases(flags, s));
  MINFER_TRY(take_gates(flags, config));
  MINFER_TRY(take_devices(flags, config));
  MINFER_TRY(take_cache_type(flags, config));
  if (config.max_tokens < -1)
    return fail(ErrorCode::kUsage, fmt::format("{} tokens", config.max_tokens), "--tokens",
                "a count, or -1 for no limit");
  if (config.batch == 0) return fail(ErrorCode::kUsage, "0 tokens a step", "--batch");
  return s.check();
}

}  // namespace

Result<Options> parse_options(int argc, char** argv) {
  po::variables_map flags;
  try {
    // Abbreviations are off: a script must not change its meaning when a flag is added.
    const auto style = po::command_line_style::unix_style & ~po::command_line_style::allow_guessing;
    po::positional_options_description none;
    po::store(
        po::command_line_parser(argc, argv).options(describe()).positional(none).style(style).run(),
        flags);
    po::notify(flags);
  } catch (const po::error& e) {
    return fail(ErrorCode::kUsage, e.what(), "", "see --help");
  }
  Options out;
  out.help = flags.count("help") > 0;
  out.version = flags.count("version") > 0;
  out.list_devices = flags.count("list-devices") > 0;
  out.list_gates = flags.count("list-gates") > 0;
  out.dry_run = flags.count("dry-run") > 0;
  out.explain = flags.count("explain") > 0;
  out.json = flags.count("json") > 0;
  out.timing = flags.count("timing") > 0;
  out.quiet = flags.count("quiet") > 0;
  out.verbose = flags.count("verbose") > 0;
  out.ignore_end = flags.count("ignore-end") > 0;
  if (out.help || out.version) return out;
  take<std::string>(flags, "prompt", out.prompt);
  take<std::string>(flags, "prompt-file", out.prompt_file);
  take<std::string>(flags, "dump-graph", out.dump_graph);
  take<std::string>(flags, "dump-logits", out.dump_logits);
  if (out.prompt && out.prompt_file)
    return fail(ErrorCode::kUsage, "two prompts", "--prompt and --prompt-file", "give one");
  if (flags.count("config")) {
    MINFER_ASSIGN(const auto file, find_config(flags["config"].as<std::string>()));
    // A model on the command line replaces the config's, which then need not exist.
    if (flags.count("model")) {
      MINFER_ASSIGN(out.config, parse_file(file));
    } else {
      MINFER_ASSIGN(out.config, load_config(file));
    }
  }
  MINFER_TRY(lay_over(flags, out.config));
  return out;
}

std::string help_text() {
  std::ostringstream out;
  out << "usage: minfer-run --config NAME.yaml --prompt TEXT\n"
         "       minfer-run --model FILE.gguf --prompt TEXT [options]\n\n"
         "Runs a GGUF model and streams its answer to standard output. Values in [] are the "
         "defaults\n"
         "where neither flag nor config says otherwise; docs/config.md describes the YAML.\n\n"
      << describe();
  return out.str();
}

}  // namespace minfer::run
