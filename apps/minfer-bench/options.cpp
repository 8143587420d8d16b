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
using app::several;
using app::Workload;

constexpr uint32_t kMaxTokens = app::kMaxWorkloadTokens;
constexpr uint32_t kMaxBatch = app::kMaxWorkloadBatch;
constexpr uint32_t kMaxStep = 65536;
constexpr uint32_t kMaxRepetitions = 1'000'000;
constexpr size_t kMaxTests = 10'000;
constexpr unsigned kHelpWidth = 100;

po::options_description what_to_run() {
  po::options_description d("what to run", kHelpWidth);
  auto add = d.add_options();
  add("model,m", several("FILE"), "GGUF file; may be given more than once");
  add("prompt,p", one("LIST"), "prompt lengths to process, e.g. 128,500 [512]; 0: none");
  add("gen,n", one("LIST"), "tokens to generate [128]; 0: none");
  add("pg", one("LIST"), "prompt and generation in one figure, e.g. 512+128 [none]");
  add("mixed", one("LIST"),
      "a prompt fed in steps in which other sequences generate, e.g. 500+7 [none]");
  add("depth,d", one("LIST"), "positions held before each test [0]");
  add("batch,b", one("LIST"), "sequences that generate together [1]");
  add("repetitions,r", one("N"), "counted runs of each test, after two that are not [5]");
  add("ubatch", one("N"), "tokens of one step at most [512]");
  return d;
}

po::options_description output_flags() {
  po::options_description d("output", kHelpWidth);
  auto add = d.add_options();
  add("output,o", one("FORMAT"), "table, md, csv or json [table]");
  add("json", "the same as --output json; also for errors");
  add("plot", one("FILE"), "draw throughput against batch, depth or length as SVG");
  add("no-ceilings", "do not measure what the device reaches at best");
  add("quiet,q", "no progress and no notes");
  add("version", "print the version");
  add("help,h", "print this");
  return d;
}

po::options_description describe() {
  po::options_description all;
  return all.add(what_to_run())
      .add(app::place_flags(app::DeviceLists::kSeveral))
      .add(output_flags());
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

struct Pair {
  uint32_t first = 0;
  uint32_t second = 0;
};

/// The pairs of "512+128,16+4", neither part 0.
Result<std::vector<Pair>> pairs(const Flags& flags, const char* name, const char* shape,
                                uint32_t high) {
  std::vector<Pair> out;
  for (const std::string& text : app::split_list(flags.text(name))) {
    const size_t plus = text.find('+');
    if (plus == std::string::npos)
      return fail(ErrorCode::kUsage, fmt::format("'{}' is not {}", text, shape),
                  fmt::format("--{}", name), "e.g. 512+7");
    Pair pair;
    MINFER_ASSIGN(pair.first, Flags::integer<uint32_t>(name, text.substr(0, plus), 1, kMaxTokens));
    MINFER_ASSIGN(pair.second, Flags::integer<uint32_t>(name, text.substr(plus + 1), 1, high));
    out.push_back(pair);
  }
  return out;
}

/// The lists of every flag that names work.
struct Lists {
  std::vector<uint32_t> prompts, generates, depths, batches;
  std::vector<Pair> pairs, mixed;
};

Result<Lists> read_lists(const Flags& flags) {
  // A pair asked for alone comes without the default tests.
  const bool only_pairs =
      (flags.has("pg") || flags.has("mixed")) && !flags.has("prompt") && !flags.has("gen");
  Lists out;
  MINFER_ASSIGN(out.prompts, numbers(flags, "prompt", only_pairs ? 0 : 512, 0, kMaxTokens));
  MINFER_ASSIGN(out.generates, numbers(flags, "gen", only_pairs ? 0 : 128, 0, kMaxTokens));
  MINFER_ASSIGN(out.depths, numbers(flags, "depth", 0, 0, kMaxTokens));
  MINFER_ASSIGN(out.batches, numbers(flags, "batch", 1, 1, kMaxBatch));
  MINFER_ASSIGN(out.pairs, pairs(flags, "pg", "PROMPT+GEN", kMaxTokens));
  MINFER_ASSIGN(out.mixed, pairs(flags, "mixed", "PROMPT+SEQUENCES", kMaxBatch - 1));
  return out;
}

/// Prompts run in one sequence, what generates in every batch.
std::vector<Workload> tests_at(const Lists& lists, uint32_t depth) {
  std::vector<Workload> tests;
  for (const uint32_t p : lists.prompts)
    if (p > 0) tests.push_back({.prompt = p, .depth = depth});
  for (const uint32_t b : lists.batches) {
    for (const uint32_t n : lists.generates)
      if (n > 0) tests.push_back({.generate = n, .depth = depth, .batch = b});
    for (const Pair& p : lists.pairs)
      tests.push_back({.prompt = p.first, .generate = p.second, .depth = depth, .batch = b});
  }
  for (const Pair& p : lists.mixed)
    tests.push_back({.prompt = p.first, .depth = depth, .beside = p.second});
  return tests;
}

Result<std::vector<Workload>> plan_tests(const Flags& flags, uint32_t step_tokens) {
  MINFER_ASSIGN(const Lists lists, read_lists(flags));
  std::vector<Workload> tests;
  for (const uint32_t depth : lists.depths) {
    for (Workload& test : tests_at(lists, depth)) tests.push_back(test);
    if (tests.size() > kMaxTests)
      return fail(ErrorCode::kUsage, fmt::format("more than {} tests", kMaxTests));
  }
  if (tests.empty())
    return fail(ErrorCode::kUsage, "nothing to measure", "--prompt and --gen",
                "give one of them a length");
  for (const Workload& test : tests) {
    if (test.beside >= step_tokens)
      return fail(ErrorCode::kUsage,
                  fmt::format("{} leaves no room for the prompt in a step of {} tokens",
                              test.name(), step_tokens),
                  "--mixed");
    const uint64_t positions = test.positions(step_tokens);
    if (positions >= kMaxTokens)
      return fail(ErrorCode::kUsage,
                  fmt::format("{} takes {} positions, fewer than {} are possible", test.name(),
                              positions, kMaxTokens));
  }
  return tests;
}

Result<Format> parse_format(const std::string& name) {
  if (name == "table") return Format::kTable;
  if (name == "md") return Format::kMarkdown;
  if (name == "csv") return Format::kCsv;
  if (name == "json") return Format::kJson;
  return fail(ErrorCode::kUsage, fmt::format("there is no format '{}'", name), "--output",
              "table, md, csv or json");
}

Result<void> take_output(const Flags& flags, Options& out) {
  out.quiet = flags.has("quiet");
  out.ceilings = !flags.has("no-ceilings");
  out.plot = flags.text("plot");
  if (flags.has("plot") && out.plot.empty())
    return fail(ErrorCode::kUsage, "the file's name is empty", "--plot");
  if (flags.has("json")) out.format = Format::kJson;
  if (!flags.has("output")) return {};
  MINFER_ASSIGN(const Format format, parse_format(flags.text("output")));
  if (flags.has("json") && format != Format::kJson)
    return fail(ErrorCode::kUsage, "contradict each other", "--json and --output", "give one");
  out.format = format;
  return {};
}

}  // namespace

Result<Options> parse_options(int argc, char** argv) {
  MINFER_ASSIGN(const Flags flags, Flags::parse(argc, argv, describe()));
  Options out;
  out.help = flags.has("help");
  out.version = flags.has("version");
  if (out.help || out.version) return out;
  MINFER_TRY(take_output(flags, out));
  if (!flags.has("model"))
    return fail(ErrorCode::kUsage, "no model", "", "give --model FILE.gguf; see --help");
  MINFER_TRY(flags.take<uint32_t>("ubatch", out.config.batch, 1, kMaxStep));
  MINFER_ASSIGN(out.tests, plan_tests(flags, out.config.batch));
  MINFER_TRY(flags.take<uint32_t>("repetitions", out.repetitions, 1, kMaxRepetitions));
  MINFER_TRY(app::take_place(flags, out.config, out.gates));
  MINFER_ASSIGN(out.places, app::device_lists(flags));
  for (const std::string& model : flags.texts("model")) {
    MINFER_ASSIGN(auto file, find_model(model, {}));
    out.models.push_back(std::move(file));
  }
  return out;
}

std::string help_text() {
  std::ostringstream out;
  out << "usage: minfer-bench --model FILE.gguf [options]\n\n"
         "Measures prompt processing and generation on random tokens. Figures are tokens per "
         "second\n"
         "of all sequences together. Values in [] are the defaults; a LIST is separated by "
         "commas.\n\n"
      << describe();
  return out.str();
}

}  // namespace minfer::bench
