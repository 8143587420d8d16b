// minfer-inspect: what is in a GGUF file, whether its numbers are sound, and how it reads text.
//
// stdout carries the result only; errors go to stderr, with an exit status per kind of error.
#include <fmt/format.h>

#include <boost/json.hpp>
#include <cstdio>
#include <exception>
#include <new>

#include "check.h"
#include "listing.h"
#include "minfer/gguf.h"
#include "options.h"
#include "prompt.h"

namespace minfer::inspect {
namespace {

struct Output {
  std::string text;
  int status = 0;
};

Result<Output> inspect(const Options& options) {
  if (options.help) return Output{*options.help};
  MINFER_ASSIGN(const auto file, GgufFile::open(options.model));
  if (options.check) {
    const CheckReport report = check_tensors(*file);
    const std::string text =
        options.json ? boost::json::serialize(check_json(report)) + "\n" : check_text(report);
    return Output{text, report.ok() ? 0 : exit_status(ErrorCode::kBadModel)};
  }
  if (options.tokenize) {
    MINFER_ASSIGN(std::string ids, tokenize_file(*file, *options.tokenize, options.parse_special));
    return Output{std::move(ids)};
  }
  if (options.render) {
    MINFER_ASSIGN(std::string prompt, render_file(*file, *options.render, options.template_file));
    return Output{std::move(prompt)};
  }
  if (options.json) return Output{boost::json::serialize(json_listing(*file)) + "\n"};
  return Output{text_listing(*file)};
}

int report(const Error& error) {
  fmt::print(stderr, "minfer-inspect: {}\n", error.message());
  return exit_status(error.code);
}

int run(int argc, char** argv) {
  const auto options = parse_options(argc, argv);
  if (!options) return report(options.error());
  const auto output = inspect(*options);
  if (!output) return report(output.error());
  const bool written =
      std::fwrite(output->text.data(), 1, output->text.size(), stdout) == output->text.size() &&
      std::fflush(stdout) == 0;
  if (!written) return report({ErrorCode::kIo, "cannot write the result", "standard output", ""});
  return output->status;
}

}  // namespace
}  // namespace minfer::inspect

int main(int argc, char** argv) {
  try {
    return minfer::inspect::run(argc, argv);
  } catch (const std::bad_alloc&) {
    std::fputs("minfer-inspect: out of memory\n", stderr);
    return minfer::exit_status(minfer::ErrorCode::kOutOfMemory);
  } catch (const std::exception& error) {
    fmt::print(stderr, "minfer-inspect: internal error: {}\n", error.what());
    return minfer::exit_status(minfer::ErrorCode::kInternal);
  }
}
