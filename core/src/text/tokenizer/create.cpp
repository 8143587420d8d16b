// Choosing the tokenizer model that a file names.
#include <fmt/format.h>

#include "text/tokenizer/bpe.h"
#include "text/tokenizer/spm.h"

namespace minfer {

Result<std::shared_ptr<const Tokenizer>> Tokenizer::create(const GgufFile& file) {
  constexpr std::string_view kModelKey = "tokenizer.ggml.model";
  constexpr std::string_view kKnown =
      "this build knows gpt2 (byte-level BPE) and llama (SentencePiece)";
  auto built = [&]() -> Result<std::shared_ptr<const Tokenizer>> {
    MINFER_ASSIGN(const auto model, file.get_string(kModelKey));
    if (!model) {
      return fail(ErrorCode::kTokenizer, "is missing", tok::where(file, kModelKey),
                  "the file has no tokenizer; convert the model again");
    }
    if (*model == "gpt2") return tok::BpeTokenizer::create(file);
    if (*model == "llama") return tok::SpmTokenizer::create(file);
    if (*model == "none") {
      return fail(ErrorCode::kUnsupported, "is 'none': the file has no vocabulary",
                  tok::where(file, kModelKey),
                  "text cannot be run through this model, only token ids");
    }
    return fail(ErrorCode::kTokenizer, fmt::format("names the unknown tokenizer '{}'", *model),
                tok::where(file, kModelKey), std::string(kKnown));
  }();
  // Look-ups report a value of the wrong kind as a damaged model; here it is the tokenizer's.
  if (!built && built.error().code == ErrorCode::kBadModel) {
    built.error().code = ErrorCode::kTokenizer;
  }
  return built;
}

}  // namespace minfer
