#include "options.h"

#include <fmt/format.h>

#include <sstream>

#include "flags.h"
#include "place.h"
#include "samples.h"

namespace po = boost::program_options;

namespace minfer::ab {
namespace {

using app::Flags;
using app::one;

constexpr uint32_t kMaxPairs = 2000;
constexpr uint32_t kMaxStep = 65536;
constexpr unsigned kHelpWidth = 100;

po::options_description describe() {
  po::options_description d("what to compare", kHelpWidth);
  auto add = d.add_options();
  add("model,m", one("FILE"), "GGUF file");
  add("metric", one("WORKLOAD"),
      "what is timed, as minfer-bench names it, e.g. pp512, tg128@d4096x8 [tg32]");
  add("pairs", one("N"), "pairs of samples, an even number, fixed beforehand [40]");
  add("bar", one("PERCENT"), "the smallest effect that matters [1.5]");
  add("confidence", one("PERCENT"), "of the interval that the verdict rests on [99.9]");
  add("tolerance", one("X"),
      "relative difference of logits that still counts as rounding, for gates that may change it "
      "[0.15]");
  add("label", one("TEXT"), "the fast path: text in the label of a kernel that side B must run");
  add("same-kernels", "judge although both sides run kernels of the same names");
  add("reload", "for gates of scope load: import anew for every sample instead of keeping two");
  add("seed", one("N"), "of the random order within pairs [1]");
  add("ubatch", one("N"), "tokens of one step at most [512]");
  add("json", "print one JSON object, with every sample");
  add("quiet,q", "no progress and no notes");
  add("version", "print the version");
  add("help,h", "print this");
  return d.add(app::place_flags());
}

Result<void> take_percent(const Flags& flags, const char* name, double low, double high,
                          double& out) {
  auto value = static_cast<float>(out);
  MINFER_TRY(flags.take(name, value));
  if (!flags.has(name)) return {};
  if (!(value >= low && value <= high))
    return fail(ErrorCode::kUsage,
                fmt::format("'{}' is not from {} to {}", flags.text(name), low, high),
                fmt::format("--{}", name));
  out = value;
  return {};
}

/// The gate with two values leaves the list of those that are fixed.
Result<void> take_compared(Options& out) {
  const auto has_two = [](const app::GateFlag& g) { return g.text.find(',') != std::string::npos; };
  const auto found = std::find_if(out.gates.begin(), out.gates.end(), has_two);
  constexpr const char* kHint = "e.g. --gate MINFER_CPU_FUSE=0,1";
  if (found == out.gates.end())
    return fail(ErrorCode::kUsage, "no gate has two values to compare", "--gate", kHint);
  if (std::count_if(out.gates.begin(), out.gates.end(), has_two) > 1)
    return fail(ErrorCode::kUsage, "more than one gate has two values", "--gate",
                "one is compared, the others are fixed");
  const auto values = app::split_list(found->text);
  if (values.size() != 2)
    return fail(ErrorCode::kUsage, fmt::format("'{}' is not two values", found->text), "--gate",
                kHint);
  out.values = {values[0], values[1]};
  out.gate = *found;
  out.gate.text = values[0];
  out.gates.erase(found);
  return {};
}

Result<void> take_design(const Flags& flags, Options& out) {
  MINFER_TRY(flags.take<uint32_t>("pairs", out.pairs, 2, kMaxPairs));
  MINFER_TRY(take_percent(flags, "bar", 0, 1000, out.bar));
  MINFER_TRY(take_percent(flags, "confidence", 50, 99.9999, out.confidence));
  MINFER_TRY(take_percent(flags, "tolerance", 0, 10, out.tolerance));
  MINFER_TRY(flags.take<uint64_t>("seed", out.seed, 0, UINT32_MAX));
  const size_t needed = 2 * app::differences_needed(out.confidence / 100);
  if (out.pairs % 2 != 0 || out.pairs < needed)
    return fail(ErrorCode::kUsage,
                fmt::format("{} pairs; an interval of {} % needs an even number of at least {}",
                            out.pairs, out.confidence, needed),
                "--pairs");
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
  out.reload = flags.has("reload");
  out.allow_same_kernels = flags.has("same-kernels");
  out.label = flags.text("label");
  if (!flags.has("model"))
    return fail(ErrorCode::kUsage, "no model", "", "give --model FILE.gguf; see --help");
  if (flags.has("metric")) {
    MINFER_ASSIGN(out.metric, app::Workload::parse("metric", flags.text("metric")));
  }
  MINFER_TRY(take_design(flags, out));
  MINFER_TRY(flags.take<uint32_t>("ubatch", out.config.batch, 1, kMaxStep));
  MINFER_TRY(app::take_place(flags, out.config, out.gates));
  MINFER_TRY(take_compared(out));
  out.config.model_text = flags.text("model");
  MINFER_ASSIGN(out.config.model, find_model(out.config.model_text, {}));
  return out;
}

std::string help_text() {
  std::ostringstream out;
  out << "usage: minfer-ab --gate NAME=A,B --model FILE.gguf [options]\n\n"
         "Compares two values of a gate in one process: is B faster than A? Values in [] are the "
         "defaults.\n"
         "A --gate with one value holds on both sides. The exit status is 0 with any verdict and 1 "
         "when\n"
         "none is given because the two sides cannot be compared.\n\n"
      << describe();
  return out.str();
}

}  // namespace minfer::ab
