#include "options.h"

#include <fmt/format.h>

#include <sstream>

#include "flags.h"
#include "place.h"

namespace po = boost::program_options;

namespace minfer::bench {
namespace {

using app::Flags;
using app::one;

constexpr uint32_t kMaxTokens = 1u << 24;
constexpr uint32_t kMaxBatch = 4096;
constexpr uint32_t kMaxStep = 65536;
constexpr uint32_t kMaxRepetitions = 1'000'000;
constexpr size_t kMaxTests = 10'000;

po::options_description describe() {
  po::options_description d("options", 100, 50);
  auto add = d.add_options();
  add("model,m", one("FILE"), "GGUF file");
  add("prompt,p", one("LIST"), "prompt lengths to process, e.g. 128,500 [512]; 0: none");
  add("gen,n", one("LIST"), "tokens to generate [128]; 0: none");
  add("pg", one("LIST"), "prompt and generation in one figure, e.g. 512+128 [none]");
  add("depth,d", one("LIST"), "positions held before each test [0]");
  add("batch,b", one("LIST"), "sequences that generate together [1]");
  add("repetitions,r", one("N"), "counted runs of each test, after one that is not [5]");
  add("ubatch", one("N"), "tokens of one step at most [512]");
  add("json", "print one JSON object");
  add("quiet,q", "no progress and no notes");
  add("version", "print the version");
  add("help,h", "print this");
  d.add(app::place_flags());
  return d;
}

/// Numbers of "1,2,512"; kUsage naming the flag on anything else and on an empty list.
Result<std::vector<uint32_t>> numbers(const Flags& flags, const char* name, uint32_t otherwise,
                                      uint32_t low, uint32_t high) {
  if (!flags.has(name)) return std::vector<uint32_t>{otherwise};
  std::vector<uint32_t> out;
  for (const std::string& part : app::split_list(flags.text(name))) {
    MINFER_ASSIGN(const uint32_t n, Flags::integer<uint32_t>(name, part, low, high));
    out.push_back(n);
  }
  if (out.empty())
    return fail(ErrorCode::kUsage, "the list is empty", fmt::format("--{}", name), "e.g. 128,512");
  return out;
}

Result<Test> parse_pair(const std::string& text, uint32_t depth) {
  const size_t plus = text.find('+');
  if (plus == std::string::npos)
    return fail(ErrorCode::kUsage, fmt::format("'{}' is not PROMPT+GEN", text), "--pg",
                "e.g. 512+128");
  Test test{.depth = depth};
  MINFER_ASSIGN(test.prompt, Flags::integer<uint32_t>("pg", text.substr(0, plus), 1, kMaxTokens));
  MINFER_ASSIGN(test.generate,
                Flags::integer<uint32_t>("pg", text.substr(plus + 1), 1, kMaxTokens));
  return test;
}

Result<std::vector<Test>> plan_tests(const Flags& flags) {
  // A pair asked for alone comes without the default tests.
  const bool only_pairs = flags.has("pg") && !flags.has("prompt") && !flags.has("gen");
  MINFER_ASSIGN(const auto prompts, numbers(flags, "prompt", only_pairs ? 0 : 512, 0, kMaxTokens));
  MINFER_ASSIGN(const auto generates, numbers(flags, "gen", only_pairs ? 0 : 128, 0, kMaxTokens));
  MINFER_ASSIGN(const auto depths, numbers(flags, "depth", 0, 0, kMaxTokens));
  MINFER_ASSIGN(const auto batches, numbers(flags, "batch", 1, 1, kMaxBatch));
  std::vector<Test> tests;
  for (const uint32_t depth : depths) {
    for (const uint32_t p : prompts)
      if (p > 0) tests.push_back({p, 0, depth, 1});
    for (const uint32_t b : batches)
      for (const uint32_t n : generates)
        if (n > 0) tests.push_back({0, n, depth, b});
    for (const std::string& pair : app::split_list(flags.text("pg"))) {
      MINFER_ASSIGN(const Test test, parse_pair(pair, depth));
      tests.push_back(test);
    }
    if (tests.size() > kMaxTests)
      return fail(ErrorCode::kUsage, fmt::format("more than {} tests", kMaxTests));
  }
  if (tests.empty())
    return fail(ErrorCode::kUsage, "nothing to measure", "--prompt and --gen",
                "give one of them a length");
  for (const Test& test : tests)
    if (positions(test) >= kMaxTokens)
      return fail(ErrorCode::kUsage,
                  fmt::format("{} takes {} positions, fewer than {} are possible", test.name(),
                              positions(test), kMaxTokens));
  return tests;
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
  MINFER_ASSIGN(out.tests, plan_tests(flags));
  MINFER_TRY(flags.take<uint32_t>("repetitions", out.repetitions, 1, kMaxRepetitions));
  MINFER_TRY(flags.take<uint32_t>("ubatch", out.config.batch, 1, kMaxStep));
  MINFER_TRY(app::take_place(flags, out.config, out.gates));
  out.config.model_text = flags.text("model");
  MINFER_ASSIGN(out.config.model, find_model(out.config.model_text, {}));
  return out;
}

std::string help_text() {
  std::ostringstream out;
  out << "usage: minfer-bench --model FILE.gguf [options]\n\n"
         "Measures prompt processing and generation on random tokens. Figures are tokens per "
         "second "
         "of\n"
         "all sequences together: the median of the counted runs, with their range. Values in [] "
         "are the\n"
         "defaults; a LIST is separated by commas.\n\n"
      << describe();
  return out.str();
}

}  // namespace minfer::bench
