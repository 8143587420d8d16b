// minfer-bench: how fast a model runs here, with the kernels that ran.
#include "bench.h"
#include "files.h"
#include "options.h"
#include "plot.h"
#include "report.h"
#include "terminal.h"

using namespace minfer;

namespace {

constexpr const char* kProgram = "minfer-bench";

std::string text_of(const std::vector<bench::Record>& records, bench::Format format) {
  switch (format) {
    case bench::Format::kMarkdown:
      return bench::markdown_text(records);
    case bench::Format::kCsv:
      return bench::csv_text(records);
    case bench::Format::kJson:
      return bench::json_text(records);
    case bench::Format::kTable:
      break;
  }
  return bench::table_text(records);
}

Result<int> run_command(int argc, char** argv) {
  MINFER_ASSIGN(const bench::Options options, bench::parse_options(argc, argv));
  if (options.help) return app::print(bench::help_text());
  if (options.version) return app::print("minfer " MINFER_RELEASE "\n");
  app::log_to_stderr(kProgram, options.quiet ? LogLevel::kError : LogLevel::kInfo);
  if (!options.plot.empty()) MINFER_TRY(app::check_writable(options.plot));
  MINFER_ASSIGN(const auto records, bench::run_all(options));
  if (!options.plot.empty()) MINFER_TRY(app::write_file(options.plot, bench::plot_svg(records)));
  return app::print(text_of(records, options.format));
}

}  // namespace

int main(int argc, char** argv) {
  return app::run_program(kProgram, argc, argv, run_command);
}
