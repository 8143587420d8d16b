#include "text/tokenizer/vocab_tokenizer.h"

#include <algorithm>

namespace minfer::tok {

std::vector<TokenId> VocabTokenizer::encode(std::span<const TextSegment> segments,
                                            bool add_special) const {
  const Prompt prompt(segments);
  std::vector<TokenId> out;
  out.reserve(prompt.text.size() / 3 + 2);
  const bool with_bos = add_special && vocab_.add_bos();
  if (with_bos) out.push_back(vocab_.bos());
  bool starts = true;
  for (const Fragment& fragment : matcher_.split(prompt)) {
    if (fragment.id < 0) {
      const size_t length = fragment.end - fragment.begin;
      encode_text(std::string_view(prompt.text).substr(fragment.begin, length), starts, out);
      starts = false;
      continue;
    }
    // Templates often write the BOS that the vocabulary would add too.
    const bool doubled =
        with_bos && out.size() == 1 && fragment.begin == 0 && fragment.id == vocab_.bos();
    if (!doubled) out.push_back(fragment.id);
    starts = true;
  }
  if (add_special && vocab_.add_eos() && (out.empty() || out.back() != vocab_.eos())) {
    out.push_back(vocab_.eos());
  }
  return out;
}

std::string VocabTokenizer::token_bytes(TokenId id, bool special) const {
  if (!vocab_.contains(id)) return {};
  if (vocab_.is_reserved(id)) return special ? std::string(vocab_.text(id)) : std::string();
  return plain_bytes(id);
}

std::string_view VocabTokenizer::token_text(TokenId id) const {
  return vocab_.contains(id) ? vocab_.text(id) : std::string_view();
}

bool VocabTokenizer::is_control(TokenId id) const {
  return vocab_.contains(id) && vocab_.type(id) == TokenType::kControl;
}

Result<std::vector<bool>> tokens_that_strip_right(const GgufFile& file, const Vocab& vocab) {
  std::vector<bool> strips;
  MINFER_ASSIGN(const auto name, file.get_string("general.name"));
  if (!name) return strips;
  std::string lower(*name);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (lower.find("phi-3") == lower.npos && lower.find("phi3") == lower.npos) return strips;
  strips.resize(vocab.size());
  for (const TokenId id : vocab.special()) {
    const std::string_view text = vocab.text(id);
    strips[static_cast<size_t>(id)] = text != "<unk>" && text != "<s>" && text != "<|endoftext|>";
  }
  return strips;
}

}  // namespace minfer::tok
