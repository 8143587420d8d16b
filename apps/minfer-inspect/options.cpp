#include "options.h"

#include <fmt/format.h>

#include <boost/program_options.hpp>
#include <sstream>

namespace minfer::inspect {
namespace {

namespace po = boost::program_options;

constexpr std::string_view kUsage =
    "Usage: minfer-inspect MODEL.gguf [what to do]\n"
    "\n"
    "Without an option: prints the metadata and the tensors of a GGUF file. Of a split model any "
    "part\n"
    "may be named.\n"
    "\n";

constexpr std::string_view kNotes =
    "\n"
    "--tokenize prints the ids on one line, without the beginning-of-text token that a prompt "
    "would\n"
    "get. Spellings of special tokens are plain text unless --parse-special is given.\n"
    "\n"
    "--render takes an OpenAI message list, or an object whose members the template sees as they "
    "are:\n"
    "messages, tools, add_generation_prompt, bos_token, eos_token and any others. Where they are "
    "not\n"
    "given, add_generation_prompt is false (as in Hugging Face's apply_chat_template) and "
    "bos_token and\n"
    "eos_token are the vocabulary's. The prompt is printed with nothing added, not even a "
    "newline.\n"
    "\n"
    "Exit status: 0, 2 for wrong usage, 3 for wrong JSON, 4 for a file that is not there, 6 for a "
    "damaged\n"
    "file or a failed --check, 12 for a template that fails, 13 for a wrong tokenizer.\n";

po::options_description visible_options() {
  po::options_description options("Options", 100);
  options.add_options()                                                                        //
      ("json", "print metadata and tensors, or the findings of --check, as one JSON object")   //
      ("check", "read all tensor data and report scales and values that are NaN or infinite")  //
      ("tokenize", po::value<std::string>()->value_name("TEXTFILE"),
       "print the token ids of a file's text ('-': standard input)")                          //
      ("parse-special", "with --tokenize: read spellings of special tokens as these tokens")  //
      ("render", po::value<std::string>()->value_name("MESSAGES.json"),
       "print the prompt that a conversation renders to ('-': standard input)")  //
      ("template", po::value<std::string>()->value_name("FILE.jinja"),
       "with --render: use this chat template instead of the model's")  //
      ("help,h", "print this");
  return options;
}

std::optional<std::string> text_of(const po::variables_map& values, const char* name) {
  if (values.count(name) == 0) return std::nullopt;
  return values[name].as<std::string>();
}

tl::unexpected<Error> usage(std::string what) {
  return fail(ErrorCode::kUsage, std::move(what), "", "see minfer-inspect --help");
}

Result<Options> check_combination(Options options) {
  if (options.model.empty()) return usage("no GGUF file given");
  const int modes = options.check + options.tokenize.has_value() + options.render.has_value();
  if (modes > 1) return usage("give only one of --check, --tokenize and --render");
  if (options.json && (options.tokenize || options.render)) {
    return usage("--json goes with the listing and with --check only");
  }
  if (options.parse_special && !options.tokenize) return usage("--parse-special needs --tokenize");
  if (options.template_file && !options.render) return usage("--template needs --render");
  return options;
}

}  // namespace

Result<Options> parse_options(int argc, const char* const* argv) {
  po::options_description all = visible_options();
  all.add_options()("model", po::value<std::string>());
  po::positional_options_description positional;
  positional.add("model", 1);
  po::variables_map values;
  try {
    const int style =
        po::command_line_style::default_style & ~po::command_line_style::allow_guessing;
    po::store(
        po::command_line_parser(argc, argv).options(all).positional(positional).style(style).run(),
        values);
    po::notify(values);
  } catch (const po::error& error) {
    return usage(error.what());
  }
  Options options;
  if (values.count("help") > 0) {
    std::ostringstream text;
    text << kUsage << visible_options() << kNotes;
    options.help = text.str();
    return options;
  }
  options.model = text_of(values, "model").value_or("");
  options.json = values.count("json") > 0;
  options.check = values.count("check") > 0;
  options.parse_special = values.count("parse-special") > 0;
  options.tokenize = text_of(values, "tokenize");
  options.render = text_of(values, "render");
  options.template_file = text_of(values, "template");
  return check_combination(std::move(options));
}

}  // namespace minfer::inspect
