// Compares a model on two devices: greedy decoding on the first, the second fed the same tokens.
//
// Texts of two devices part at the first near-tie and say nothing after it. Fed the same tokens,
// every step can be judged: by the relative error of its logits, and where the best tokens differ
// by the gap between the two, held against the root mean square by which all logits of the step
// differ. Rounding flips a choice only where the gap is as small as that; a fault shows in the
// error.
//
// Exit status: 0 when every step is within the tolerance and each difference is a near-tie, 1 when
// not, else that of the error. Single-threaded.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <sstream>

#include "files.h"
#include "flags.h"
#include "host.h"
#include "minfer/engine.h"
#include "terminal.h"

using namespace minfer;

namespace {

namespace po = boost::program_options;

constexpr const char* kProgram = "compare_devices";
constexpr uint32_t kMaxTokens = 4096;
/// In a side: how many layers are on the device, where not all are.
constexpr std::string_view kLayers = "layers=";
/// A gap of this many root mean squares is no rounding any more.
constexpr double kNearTie = 6.0;
/// Lengths of the prompts of random tokens: one token, few, and what prefill kernels take.
constexpr size_t kRandomPrompts[] = {1, 7, 40, 200};

struct Options {
  std::string model;
  std::string first = "cpu,MINFER_CPU_ISA=scalar";
  std::string second;
  std::vector<std::string> prompts;
  std::string cache_type = "f32";
  uint32_t tokens = 32;
  float tolerance = 0.05f;
};

po::options_description describe() {
  po::options_description d("options", 100);
  d.add_options()("model,m", app::one("FILE"), "GGUF file")(
      "first", app::one("SIDE"),
      "device and gates that decode, e.g. cuda:0,MINFER_CUDA_REFERENCE=1,layers=15 "
      "[cpu,MINFER_CPU_ISA=scalar]")("second", app::one("SIDE"), "device and gates to judge")(
      "prompt,p", app::several("TEXT"),
      "may be given more than once [random tokens: 1, 7, 40 and 200]")(
      "tokens,n", app::one("N"), "tokens to decode after each prompt [32]")(
      "cache-type", app::one("TYPE"), "KV cache of both: f32, f16 or q8_0 [f32]")(
      "tolerance", app::one("X"), "largest relative error of a step's logits [0.05]")("help,h",
                                                                                      "print this");
  return d;
}

Result<Options> read_options(const app::Flags& flags) {
  Options out;
  flags.take("model", out.model);
  flags.take("first", out.first);
  flags.take("second", out.second);
  flags.take("cache-type", out.cache_type);
  out.prompts = flags.texts("prompt");
  MINFER_TRY(flags.take<uint32_t>("tokens", out.tokens, 1, kMaxTokens));
  MINFER_TRY(flags.take("tolerance", out.tolerance));
  if (out.model.empty() || out.second.empty())
    return fail(ErrorCode::kUsage, "--model and --second are needed", "", "see --help");
  return out;
}

/// A device with gates, and an engine on it.
struct Side {
  std::string name;
  std::unique_ptr<PluginHost> host;
  std::unique_ptr<Engine> engine;
  SequenceId sequence = 0;

  /// Logits of the last of these tokens.
  Result<std::vector<float>> feed(std::span<const TokenId> tokens) {
    MINFER_ASSIGN(const StepResult result, engine->prefill(sequence, tokens));
    return std::vector<float>(result.logits.begin(), result.logits.end());
  }
};

Result<Side> open_side(const std::string& text, const Options& options,
                       std::shared_ptr<const Model> model) {
  Side side;
  side.name = text;
  std::vector<std::string> parts = app::split_list(text);
  if (parts.empty()) return fail(ErrorCode::kUsage, "a side names no device", "--first, --second");
  RunConfig config;
  MINFER_ASSIGN(config.backends, app::parse_devices(parts[0]));
  EngineOptions engine;
  std::vector<app::GateFlag> gates;
  for (size_t i = 1; i < parts.size(); ++i) {
    if (parts[i].starts_with(kLayers)) {
      MINFER_ASSIGN(engine.gpu_layers,
                    app::Flags::integer<int32_t>("second", parts[i].substr(kLayers.size()), 0,
                                                 std::numeric_limits<int32_t>::max()));
      continue;
    }
    MINFER_ASSIGN(auto gate, app::parse_gate(parts[i]));
    gates.push_back(std::move(gate));
  }
  MINFER_ASSIGN(side.host, app::open_host(config, gates));
  engine.devices = {config.backends[0].device_id()};
  engine.context = 1024 + options.tokens;
  MINFER_ASSIGN(const CacheType cache, app::parse_cache_type(options.cache_type));
  engine.kv_type = app::kv_type(cache);
  MINFER_ASSIGN(side.engine, Engine::create(std::move(model), *side.host, engine));
  return side;
}

/// What one step's logits say about each other.
struct Difference {
  double error = 0;  ///< ||second - first|| / ||first||
  double rms = 0;    ///< root mean square of second - first
  TokenId best_first = 0, best_second = 0;
  double gap_first = 0, gap_second = 0;  ///< between the two best tokens, on each side

  bool near_tie() const { return gap_first + gap_second <= kNearTie * rms; }
};

Difference compare(std::span<const float> first, std::span<const float> second) {
  Difference d;
  double difference = 0, norm = 0;
  for (size_t i = 0; i < first.size(); ++i) {
    const double by = double{second[i]} - first[i];
    difference += by * by;
    norm += double{first[i]} * first[i];
  }
  d.error = std::sqrt(difference / norm);
  if (!(d.error >= 0)) d.error = INFINITY;
  d.rms = std::sqrt(difference / static_cast<double>(first.size()));
  const auto best = [](std::span<const float> l) {
    return static_cast<size_t>(std::max_element(l.begin(), l.end()) - l.begin());
  };
  const size_t a = best(first), b = best(second);
  d.best_first = static_cast<TokenId>(a);
  d.best_second = static_cast<TokenId>(b);
  d.gap_first = double{first[a]} - first[b];
  d.gap_second = double{second[b]} - second[a];
  return d;
}

/// Of one prompt, or of all.
struct Verdict {
  bool good = true;
  double worst = 0;  ///< relative error
  uint32_t differing = 0, tokens = 0;

  void add(const Verdict& other) {
    good = good && other.good;
    worst = std::max(worst, other.worst);
    differing += other.differing;
    tokens += other.tokens;
  }
};

/// Decodes one prompt and prints its line.
Result<Verdict> compare_prompt(Side& first, Side& second, std::span<const TokenId> prompt,
                               const std::string& name, const Options& options) {
  for (Side* side : {&first, &second}) {
    MINFER_ASSIGN(side->sequence, side->engine->sequence_new());
  }
  std::vector<TokenId> fed(prompt.begin(), prompt.end());
  Verdict verdict{.tokens = options.tokens};
  double sum = 0;
  std::string notes;
  for (uint32_t step = 0; step < options.tokens; ++step) {
    MINFER_ASSIGN(const std::vector<float> a, first.feed(fed));
    MINFER_ASSIGN(const std::vector<float> b, second.feed(fed));
    const Difference d = compare(a, b);
    sum += d.error;
    verdict.worst = std::max(verdict.worst, d.error);
    if (d.best_first != d.best_second) {
      if (verdict.differing++ == 0 || !d.near_tie())
        notes += fmt::format(
            "    token {}: {} against {}, gap {:.4f} / {:.4f}, all logits differ by {:.4f}: {}\n",
            step, d.best_first, d.best_second, d.gap_first, d.gap_second, d.rms,
            d.near_tie() ? "a near-tie" : "NO near-tie");
      verdict.good = verdict.good && d.near_tie();
    }
    fed = {d.best_first};
  }
  verdict.good = verdict.good && verdict.worst <= options.tolerance;
  for (Side* side : {&first, &second}) MINFER_TRY(side->engine->sequence_free(side->sequence));
  MINFER_TRY(
      app::write_out(fmt::format("  {:<4} {}: {} of {} tokens differ, relative error of logits "
                                 "{:.2e} mean, {:.2e} largest\n{}",
                                 verdict.good ? "ok" : "BAD", name, verdict.differing,
                                 options.tokens, sum / options.tokens, verdict.worst, notes)));
  return verdict;
}

struct Prompt {
  std::string name;
  std::vector<TokenId> tokens;
};

Result<std::vector<Prompt>> make_prompts(const Options& options, const Model& model) {
  std::vector<Prompt> out;
  if (options.prompts.empty()) {
    std::mt19937 random(1);
    for (const size_t n : kRandomPrompts) {
      Prompt prompt{fmt::format("{} random tokens", n), std::vector<TokenId>(n)};
      for (TokenId& t : prompt.tokens) t = static_cast<TokenId>(random() % model.hparams().n_vocab);
      out.push_back(std::move(prompt));
    }
    return out;
  }
  MINFER_ASSIGN(const auto tokenizer, Tokenizer::create(model.file()));
  for (const std::string& text : options.prompts)
    out.push_back({fmt::format("\"{}\"", text), tokenizer->encode(text, false, true)});
  return out;
}

Result<int> run_command(int argc, char** argv) {
  MINFER_ASSIGN(const app::Flags flags, app::Flags::parse(argc, argv, describe()));
  if (flags.has("help")) {
    std::ostringstream text;
    text << "usage: compare_devices --model FILE.gguf --second SIDE [options]\n\n" << describe();
    MINFER_TRY(app::write_out(text.str()));
    return 0;
  }
  app::log_to_stderr(kProgram, LogLevel::kWarn);
  MINFER_ASSIGN(const Options options, read_options(flags));
  MINFER_ASSIGN(auto file, GgufFile::open(options.model));
  MINFER_ASSIGN(auto model, Model::create(std::move(file)));
  MINFER_ASSIGN(Side first, open_side(options.first, options, model));
  MINFER_ASSIGN(Side second, open_side(options.second, options, model));
  MINFER_ASSIGN(const std::vector<Prompt> prompts, make_prompts(options, *model));
  MINFER_TRY(app::write_out(fmt::format("{} against {}\n", second.name, first.name)));
  Verdict all;
  for (const Prompt& prompt : prompts) {
    MINFER_ASSIGN(const Verdict verdict,
                  compare_prompt(first, second, prompt.tokens, prompt.name, options));
    all.add(verdict);
  }
  MINFER_TRY(app::write_out(fmt::format("{} of {} tokens differ, relative error at most {:.2e}\n",
                                        all.differing, all.tokens, all.worst)));
  return all.good ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  return app::run_program(kProgram, argc, argv, run_command);
}
