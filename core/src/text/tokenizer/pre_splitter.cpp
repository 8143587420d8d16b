#include "text/tokenizer/pre_splitter.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/format.h>
#include <pcre2.h>

#include "minfer/log.h"
#include "text/tokenizer/utf8.h"

namespace minfer::tok {
namespace {

/// White_Space of Unicode 15 (PropList.txt), as the inside of a character class.
constexpr std::string_view kWhiteSpace =
    R"(\x{9}-\x{D} \x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";

/// Far above what any pattern of the table needs per match, far below what would look like a hang.
constexpr uint32_t kMatchLimit = 50'000'000;

std::string pcre_error(int code) {
  PCRE2_UCHAR text[256] = {};
  pcre2_get_error_message(code, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

}  // namespace

std::string expand_white_space(std::string_view pattern) {
  std::string out;
  bool in_class = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\' && i + 1 < pattern.size()) {
      const char escaped = pattern[++i];
      if (escaped == 's' && in_class) {
        out += kWhiteSpace;
      } else if (escaped == 's' || (escaped == 'S' && !in_class)) {
        out.append(escaped == 's' ? "[" : "[^").append(kWhiteSpace) += ']';
      } else {
        (out += c) += escaped;
      }
      continue;
    }
    if (c == '[') in_class = true;
    if (c == ']') in_class = false;
    out += c;
  }
  return out;
}

void PreSplitter::CodeDeleter::operator()(pcre2_real_code_8* code) const {
  pcre2_code_free(code);
}

Result<PreSplitter> PreSplitter::create(const PreRule& rule) {
  PreSplitter splitter;
  for (const std::string_view source : rule.patterns) {
    const std::string pattern = expand_white_space(source);
    int error = 0;
    PCRE2_SIZE offset = 0;
    Code code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                            PCRE2_UTF | PCRE2_UCP, &error, &offset, nullptr));
    if (!code) {
      return fail(ErrorCode::kInternal,
                  fmt::format("a pattern of pre-tokeniser '{}' does not compile at offset {}: {}",
                              rule.names[0], offset, pcre_error(error)));
    }
    // Without JIT (a hardened kernel may refuse executable memory) matching works, only slower.
    pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);
    splitter.codes_.push_back(std::move(code));
  }
  return splitter;
}

/// What one call of split needs for matching.
class PreSplitter::Matcher {
 public:
  Matcher()
      : context_(pcre2_match_context_create(nullptr)), data_(pcre2_match_data_create(1, nullptr)) {
    if (context_ == nullptr || data_ == nullptr) {
      free();
      throw std::bad_alloc();
    }
    pcre2_set_match_limit(context_, kMatchLimit);
  }
  ~Matcher() { free(); }
  Matcher(const Matcher&) = delete;
  Matcher& operator=(const Matcher&) = delete;

  /// Appends the ends of the pieces that `code` cuts `piece` into, plus `offset`.
  void cut(const pcre2_code* code, std::string_view piece, size_t offset,
           std::vector<size_t>& ends) {
    size_t done = 0;
    for (size_t from = 0; from < piece.size();) {
      if (!find(code, piece, from)) break;
      const PCRE2_SIZE* range = pcre2_get_ovector_pointer(data_);
      if (range[1] == range[0]) {  // no pattern of the table matches nothing, but a new row might
        from = range[1] + utf8_step(piece.substr(from)).length;
        continue;
      }
      if (range[0] > done) ends.push_back(offset + range[0]);
      ends.push_back(offset + range[1]);
      done = from = range[1];
    }
    if (done < piece.size()) ends.push_back(offset + piece.size());
  }

 private:
  bool find(const pcre2_code* code, std::string_view piece, size_t from) {
    const auto match = [&](uint32_t options) {
      // The caller checked the text once; checking at every match would make this quadratic.
      return pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(piece.data()), piece.size(), from,
                         PCRE2_NO_UTF_CHECK | options, data_, context_);
    };
    int found = match(0);
    if (found == PCRE2_ERROR_JIT_STACKLIMIT) found = match(PCRE2_NO_JIT);
    if (found < 0 && found != PCRE2_ERROR_NOMATCH) {
      log(LogLevel::kWarn, fmt::format("tokenizer: {} bytes are taken as one word, since matching "
                                       "them failed: {}",
                                       piece.size() - from, pcre_error(found)));
    }
    return found >= 0;
  }
  void free() {
    pcre2_match_data_free(data_);
    pcre2_match_context_free(context_);
  }

  pcre2_match_context* context_;
  pcre2_match_data* data_;
};

void PreSplitter::split(std::string_view text, std::vector<size_t>& ends) const {
  ends.clear();
  Matcher matcher;
  std::vector<size_t> pieces, cut;
  for (size_t begin = 0; begin < text.size();) {
    const std::string_view rest = text.substr(begin);
    const size_t valid = utf8_valid_prefix(rest);
    pieces.assign(1, valid);
    for (const Code& code : codes_) {
      cut.clear();
      size_t from = 0;
      for (const size_t to : pieces) {
        matcher.cut(code.get(), rest.substr(from, to - from), from, cut);
        from = to;
      }
      std::swap(pieces, cut);
    }
    for (const size_t end : pieces) {
      if (end > 0) ends.push_back(begin + end);
    }
    begin += valid;
    const size_t broken = begin;
    while (begin < text.size()) {
      const Utf8Step step = utf8_step(text.substr(begin));
      if (step.kind == Utf8Kind::kChar) break;
      begin += step.length;
    }
    if (begin > broken) ends.push_back(begin);
  }
}

}  // namespace minfer::tok
