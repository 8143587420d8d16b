#include "options.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "flags.h"
#include "place.h"

namespace po = boost::program_options;

namespace minfer::verify {
namespace {

using app::Flags;
using app::one;
using app::several;

constexpr unsigned kHelpWidth = 100;
constexpr uint32_t kMaxTokens = 65536;
constexpr uint32_t kMaxTextTokens = 1 << 24;
constexpr uint32_t kMaxSequences = 64;
constexpr const char* kText =
    "The harbour was quiet when the first boats came back. An old man counted the baskets, wrote a "
    "number on a slate and asked";

po::options_description describe() {
  po::options_description d("what to check", kHelpWidth);
  auto add = d.add_options();
  add("model,m", one("FILE"), "GGUF file");
  add("check", one("LIST"), "gates to run [parity,greedy,replay,batch, and text with --text]");
  add("steps", one("LIST"), "tokens of the steps whose nodes are compared one by one [1,16]");
  add("past", one("N"), "positions that a step of one token comes after [40]");
  add("tokens,n", one("N"), "tokens that the other gates generate [32]");
  add("sequences", one("N"), "sequences of the batch gate [3]");
  add("prompt,p", one("TEXT"), "what the model reads [a few lines of prose]");
  add("tolerance", one("X"), "mean relative error of logits that still counts as rounding [0.15]");
  add("text", one("FILE"), "text whose mean log-probability both sides must agree on");
  add("text-tokens", one("N"), "tokens read of it [4096]");
  add("text-window", one("N"), "tokens that see one another there [512]");
  add("text-step", one("N"), "tokens of a step there, on the candidate [as many as can be]");
  add("text-tolerance", one("X"), "relative difference of the two means [0.001]");
  add("dump", one("FILE"), "write every node's values of the steps, and stop");
  add("against", one("FILE"), "compare nodes with such a file, also of another build; parity only");
  add("json", "print one JSON object");
  add("quiet,q", "no progress and no notes");
  add("version", "print the version");
  add("help,h", "print this");
  po::options_description reference("what to check it against", kHelpWidth);
  auto also = reference.add_options();
  also("reference", one("DEVICE"), "[cpu]");
  also("reference-model", one("FILE"), "[the same file]");
  also("reference-gate", several("GATE"),
       "[cpu:MINFER_CPU_ISA=scalar where the reference is the CPU]");
  return d.add(reference).add(app::place_flags());
}

Result<void> take_checks(const Flags& flags, Options& out) {
  out.text = flags.text("text");
  if (flags.has("text") && out.text.empty())
    return fail(ErrorCode::kUsage, "the file's name is empty", "--text");
  if (!flags.has("check")) return {};
  out.parity = out.greedy = out.replay = out.batch = false;
  bool text = false;
  for (const std::string& name : app::split_list(flags.text("check"))) {
    if (name == "parity") {
      out.parity = true;
    } else if (name == "greedy") {
      out.greedy = true;
    } else if (name == "replay") {
      out.replay = true;
    } else if (name == "batch") {
      out.batch = true;
    } else if (name == "text") {
      text = true;
    } else {
      return fail(ErrorCode::kUsage, fmt::format("there is no gate '{}'", name), "--check",
                  "parity, greedy, replay, batch, text");
    }
  }
  if (text && out.text.empty())
    return fail(ErrorCode::kUsage, "the text gate reads a file", "--check", "give --text FILE");
  if (!text) out.text.clear();
  return {};
}

Result<void> take_sizes(const Flags& flags, Options& out) {
  if (flags.has("steps")) {
    out.step_tokens.clear();
    for (const std::string& text : app::split_list(flags.text("steps"))) {
      MINFER_ASSIGN(const uint32_t n, Flags::integer<uint32_t>("steps", text, 1, kMaxStepTokens));
      out.step_tokens.push_back(n);
    }
    if (out.step_tokens.empty())
      return fail(ErrorCode::kUsage, "no step is named", "--steps", "e.g. 1,16");
  }
  MINFER_TRY(flags.take<uint32_t>("past", out.past, 0, kMaxPast));
  MINFER_TRY(flags.take<uint32_t>("tokens", out.tokens, 1, kMaxTokens));
  MINFER_TRY(flags.take<uint32_t>("sequences", out.sequences, 2, kMaxSequences));
  MINFER_TRY(flags.take("tolerance", out.tolerance));
  if (!(out.tolerance >= 0))
    return fail(ErrorCode::kUsage, "it must not be negative", "--tolerance");
  MINFER_TRY(flags.take<uint32_t>("text-tokens", out.text_tokens, 2, kMaxTextTokens));
  MINFER_TRY(flags.take<uint32_t>("text-window", out.text_window, 2, kMaxTokens));
  MINFER_TRY(flags.take<uint32_t>("text-step", out.text_step, 1, kMaxStepTokens));
  MINFER_TRY(flags.take("text-tolerance", out.text_tolerance));
  if (!(out.text_tolerance >= 0))
    return fail(ErrorCode::kUsage, "it must not be negative", "--text-tolerance");
  return {};
}

Result<void> take_reference(const Flags& flags, Options& out) {
  out.reference = out.candidate;
  MINFER_ASSIGN(out.reference.backends,
                app::parse_devices(flags.has("reference") ? flags.text("reference") : "cpu"));
  out.reference.gpu_layers = -1;
  if (flags.has("reference-model")) {
    out.reference.model_text = flags.text("reference-model");
    MINFER_ASSIGN(out.reference.model, find_model(out.reference.model_text, {}));
  }
  for (const std::string& text : flags.texts("reference-gate")) {
    MINFER_ASSIGN(auto gate, app::parse_gate(text));
    gate.flag = "--reference-gate";
    out.reference_gates.push_back(std::move(gate));
  }
  const auto names_isa = [](const app::GateFlag& g) { return g.name == "MINFER_CPU_ISA"; };
  if (out.reference.backends.front().name == "cpu" &&
      std::none_of(out.reference_gates.begin(), out.reference_gates.end(), names_isa))
    out.reference_gates.push_back({"cpu", "MINFER_CPU_ISA", "scalar", "--reference-gate"});
  return {};
}

}  // namespace

Result<Options> parse_options(int argc, char** argv) {
  MINFER_ASSIGN(const Flags flags, Flags::parse(argc, argv, describe()));
  Options out;
  out.help = flags.has("help");
  out.version = flags.has("version");
  if (out.help || out.version) return out;
  out.json = flags.has("json");
  out.quiet = flags.has("quiet");
  if (!flags.has("model"))
    return fail(ErrorCode::kUsage, "no model", "", "give --model FILE.gguf; see --help");
  MINFER_TRY(take_checks(flags, out));
  MINFER_TRY(take_sizes(flags, out));
  out.dump = flags.text("dump");
  out.against = flags.text("against");
  for (const char* name : {"dump", "against"})
    if (flags.has(name) && flags.text(name).empty())
      return fail(ErrorCode::kUsage, "the file's name is empty", fmt::format("--{}", name));
  if (!out.dump.empty() && !out.against.empty())
    return fail(ErrorCode::kUsage, "contradict each other", "--dump and --against", "give one");
  out.prompt = flags.has("prompt") ? flags.text("prompt") : kText;
  MINFER_TRY(app::take_place(flags, out.candidate, out.candidate_gates));
  out.candidate.model_text = flags.text("model");
  MINFER_ASSIGN(out.candidate.model, find_model(out.candidate.model_text, {}));
  MINFER_TRY(take_reference(flags, out));
  return out;
}

std::string help_text() {
  std::ostringstream out;
  out << "usage: minfer-verify --model FILE.gguf [--device cuda] [--gate GATE] [options]\n"
         "\nChecks a backend on a model: every node against a reference, greedy tokens, replayed\n"
         "against direct runs, sequences in a batch against alone. Exit status 0: all hold; 1: "
         "one\n"
         "does not; else see docs/errors.md. Values in [] are the defaults.\n\n"
      << describe();
  return out.str();
}

}  // namespace minfer::verify
