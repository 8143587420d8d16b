#include "options.h"

#include <fmt/format.h>

#include <boost/program_options.hpp>
#include <sstream>

#include "byte_vocab.h"

namespace minfer::synth {
namespace {

namespace po = boost::program_options;

constexpr int64_t kMaxLayers = 1024;

constexpr std::string_view kUsage =
    "Usage: minfer-synth --preset NAME --quant NAME -o OUT.gguf\n"
    "\n"
    "Writes a GGUF file with a known model's shapes and random weights, to measure speed and "
    "memory\n"
    "with, or to test. The same arguments give the same bytes.\n"
    "\n";

po::options_description describe() {
  po::options_description options("Options", 100);
  const auto text = [](const char* name) { return po::value<std::string>()->value_name(name); };
  options.add_options()                                                              //
      ("preset", text("NAME"), "the model whose shapes to take; --list shows them")  //
      ("quant", text("NAME")->default_value("q4_k_m"),
       ("type of the matrices, or a mix: " + Quant::known_names()).c_str())  //
      ("vocab", text("none|bytes")->default_value("none"),
       "none: token ids only; bytes: a small tokenizer that can spell any text")                //
      ("head", text("tied|untied"), "whether the embedding is also the output matrix")          //
      ("layers", po::value<int64_t>()->value_name("N"), "layers, instead of the preset's")      //
      ("vocab-size", po::value<int64_t>()->value_name("N"), "tokens, instead of the preset's")  //
      ("seed", po::value<uint64_t>()->value_name("N")->default_value(1234), "of the weights")   //
      ("output,o", text("OUT.gguf"), "file to write")                                           //
      ("list", "print the presets")                                                             //
      ("help,h", "print this");
  return options;
}

tl::unexpected<Error> usage(std::string what, std::string hint = "see minfer-synth --help") {
  return fail(ErrorCode::kUsage, std::move(what), "", std::move(hint));
}

std::string list_presets() {
  std::string out;
  for (const Shape& s : all_presets()) {
    out += fmt::format(
        "{:<13} {:<7} {:>3} layers, embedding {:>4}, {:>2}/{} heads of {:>3}, ffn {:>5}, "
        "vocabulary {:>6}{}\n",
        s.name, arch_name(s.arch), s.n_layer, s.n_embd, s.n_head, s.n_head_kv, s.head_dim, s.n_ff,
        s.n_vocab, s.tied ? ", tied head" : "");
  }
  return out;
}

std::string preset_names() {
  std::string names;
  for (const Shape& shape : all_presets())
    names += fmt::format("{}{}", names.empty() ? "" : ", ", shape.name);
  return names;
}

/// Lays the flags over the preset's shape.
Result<void> change_shape(const po::variables_map& values, Shape& shape) {
  if (values.count("layers") > 0) {
    shape.n_layer = values["layers"].as<int64_t>();
    if (shape.n_layer < 1 || shape.n_layer > kMaxLayers) {
      return usage(fmt::format("--layers is {}, expected 1 to {}", shape.n_layer, kMaxLayers));
    }
  }
  if (values.count("vocab-size") > 0) {
    shape.n_vocab = values["vocab-size"].as<int64_t>();
    if (shape.n_vocab < 1 || shape.n_vocab > (1 << 22)) {
      return usage(fmt::format("--vocab-size is {}, expected 1 to {}", shape.n_vocab, 1 << 22));
    }
  }
  if (values.count("head") > 0) {
    const auto& head = values["head"].as<std::string>();
    if (head != "tied" && head != "untied") {
      return usage(fmt::format("--head is '{}', expected tied or untied", head));
    }
    shape.tied = head == "tied";
  }
  return {};
}

Result<Options> interpret(const po::variables_map& values) {
  Options options;
  if (values.count("help") > 0) {
    std::ostringstream text;
    text << kUsage << describe();
    options.text = text.str();
    return options;
  }
  if (values.count("list") > 0) {
    options.text = list_presets();
    return options;
  }
  if (values.count("preset") == 0) return usage("no --preset given", "known are " + preset_names());
  const auto& preset = values["preset"].as<std::string>();
  const Shape* shape = find_preset(preset);
  if (shape == nullptr) {
    return usage(fmt::format("unknown preset '{}'", preset), "known are " + preset_names());
  }
  options.shape = *shape;
  MINFER_TRY(change_shape(values, options.shape));
  MINFER_ASSIGN(options.quant, Quant::parse(values["quant"].as<std::string>()));
  const auto& vocab = values["vocab"].as<std::string>();
  if (vocab != "none" && vocab != "bytes") {
    return usage(fmt::format("--vocab is '{}', expected none or bytes", vocab));
  }
  options.vocabulary = vocab == "bytes" ? Vocabulary::kBytes : Vocabulary::kNone;
  if (options.vocabulary == Vocabulary::kBytes && options.shape.n_vocab < byte_vocab_size()) {
    return usage(fmt::format("--vocab bytes needs {} tokens, the model has {}", byte_vocab_size(),
                             options.shape.n_vocab));
  }
  options.seed = values["seed"].as<uint64_t>();
  if (values.count("output") == 0) return usage("no output file given", "name it with -o");
  options.output = values["output"].as<std::string>();
  return options;
}

}  // namespace

Result<Options> parse_options(int argc, const char* const* argv) {
  po::variables_map values;
  try {
    const int style =
        po::command_line_style::default_style & ~po::command_line_style::allow_guessing;
    const po::options_description options = describe();
    po::store(po::command_line_parser(argc, argv)
                  .options(options)
                  .positional(po::positional_options_description())
                  .style(style)
                  .run(),
              values);
    po::notify(values);
  } catch (const po::error& error) {
    return usage(error.what());
  }
  return interpret(values);
}

}  // namespace minfer::synth
