// minfer-ab: whether a gate's other value is faster, with the evidence.
#include <fmt/format.h>

#include "experiment.h"
#include "files.h"
#include "kernels.h"
#include "options.h"
#include "outputs.h"
#include "report.h"
#include "sides.h"
#include "terminal.h"

using namespace minfer;

namespace {

constexpr const char* kProgram = "minfer-ab";
constexpr int kNoVerdict = 1;

/// Kernels, then outputs, then speed: the cheap reasons to refuse come first.
Result<ab::Comparison> compare(ab::Sides& sides, const ab::Options& options) {
  ab::Comparison out;
  MINFER_ASSIGN(out.kernels, ab::compare_kernels(sides, options));
  out.refusal = out.kernels.refusal;
  if (!out.refusal.empty()) return out;
  MINFER_ASSIGN(out.outputs, ab::compare_outputs(sides, options));
  out.refusal = out.outputs->refusal;
  if (!out.refusal.empty()) return out;
  MINFER_ASSIGN(out.measured, ab::measure(sides, options));
  out.refusal = out.measured->refusal;
  if (out.refusal.empty()) out.judgement = ab::judge(*out.measured, options);
  return out;
}

Result<int> run_command(int argc, char** argv) {
  MINFER_ASSIGN(const ab::Options options, ab::parse_options(argc, argv));
  if (options.help) return app::print(ab::help_text());
  if (options.version) return app::print("minfer " MINFER_RELEASE "\n");
  app::log_to_stderr(kProgram, options.quiet ? LogLevel::kError : LogLevel::kInfo);
  MINFER_ASSIGN(const auto sides, ab::Sides::create(options));
  MINFER_ASSIGN(const ab::Comparison comparison, compare(*sides, options));
  MINFER_TRY(app::print(options.json ? ab::json_text(comparison, *sides, options)
                                     : ab::text(comparison, *sides, options)));
  return comparison.refusal.empty() ? 0 : kNoVerdict;
}

}  // namespace

int main(int argc, char** argv) {
  return app::run_program(kProgram, argc, argv, run_command);
}
