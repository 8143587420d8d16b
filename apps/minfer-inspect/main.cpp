// minfer-inspect: what is in a GGUF file, whether its numbers are sound, and how it reads text.
//
// stdout carries the result only; errors go to stderr, with an exit status per kind of error.
#include <boost/json.hpp>

#include "check.h"
#include "files.h"
#include "listing.h"
#include "minfer/gguf.h"
#include "options.h"
#include "prompt.h"
#include "terminal.h"

namespace minfer::inspect {
namespace {

Result<int> run(int argc, char** argv) {
  MINFER_ASSIGN(const Options options, parse_options(argc, argv));
  if (options.help) return app::print(*options.help);
  MINFER_ASSIGN(const auto file, GgufFile::open(options.model));
  if (options.check) {
    const CheckReport report = check_tensors(*file);
    MINFER_TRY(app::print(options.json ? boost::json::serialize(check_json(report)) + "\n"
                                       : check_text(report)));
    return report.ok() ? 0 : exit_status(ErrorCode::kBadModel);
  }
  if (options.tokenize) {
    MINFER_ASSIGN(const std::string ids,
                  tokenize_file(*file, *options.tokenize, options.parse_special));
    return app::print(ids);
  }
  if (options.render) {
    MINFER_ASSIGN(const std::string prompt,
                  render_file(*file, *options.render, options.template_file));
    return app::print(prompt);
  }
  return app::print(options.json ? boost::json::serialize(json_listing(*file)) + "\n"
                                 : text_listing(*file));
}

}  // namespace
}  // namespace minfer::inspect

int main(int argc, char** argv) {
  return minfer::app::run_program("minfer-inspect", argc, argv, minfer::inspect::run);
}
