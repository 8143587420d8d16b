#include "byte_vocab.h"

#include <fmt/format.h>

#include <array>
#include <string>
#include <vector>

namespace minfer::synth {
namespace {

/// Token kinds as GGUF numbers them.
enum TokenKind : int32_t { kNormal = 1, kControl = 3, kUserDefined = 4, kUnused = 5 };

struct Special {
  std::string_view text;
  TokenKind kind;
};

constexpr std::array kSpecials = {
    Special{"<|endoftext|>", kControl},   Special{"<|im_start|>", kControl},
    Special{"<|im_end|>", kControl},      Special{"<|pad|>", kControl},
    Special{"<think>", kUserDefined},     Special{"</think>", kUserDefined},
    Special{"<tool_call>", kUserDefined}, Special{"</tool_call>", kUserDefined},
};
constexpr uint32_t kEndOfText = 0;  // offsets among the specials
constexpr uint32_t kEndOfTurn = 2;
constexpr uint32_t kPad = 3;

/// Merges in order of rank; "\u0120" is the space as byte-level BPE spells it. Each side is a byte
/// or an earlier result.
constexpr std::array<std::pair<std::string_view, std::string_view>, 48> kMerges = {{
    {"\u0120", "t"},  {"\u0120", "a"},   {"h", "e"},       {"i", "n"},       {"r", "e"},
    {"o", "n"},       {"\u0120t", "he"}, {"e", "r"},       {"\u0120", "s"},  {"a", "t"},
    {"\u0120", "w"},  {"\u0120", "o"},   {"e", "n"},       {"\u0120", "c"},  {"i", "t"},
    {"i", "s"},       {"a", "n"},        {"o", "r"},       {"e", "s"},       {"\u0120", "b"},
    {"e", "d"},       {"\u0120", "f"},   {"in", "g"},      {"\u0120", "p"},  {"o", "u"},
    {"\u0120a", "n"}, {"a", "l"},        {"a", "r"},       {"\u0120t", "o"}, {"\u0120", "m"},
    {"\u0120o", "f"}, {"\u0120", "in"},  {"\u0120", "d"},  {"\u0120", "h"},  {"\u0120an", "d"},
    {"i", "c"},       {"a", "s"},        {"l", "e"},       {"\u0120t", "h"}, {"i", "on"},
    {"o", "m"},       {"l", "l"},        {"en", "t"},      {"\u0120", "n"},  {"\u0120", "l"},
    {"s", "t"},       {"v", "e"},        {"\u0120", "re"},
}};

constexpr std::string_view kChatTemplate =
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n"
    "{% endif %}";

std::string utf8(uint32_t code_point) {
  if (code_point < 0x80) return std::string(1, static_cast<char>(code_point));
  return {static_cast<char>(0xc0 | code_point >> 6), static_cast<char>(0x80 | (code_point & 0x3f))};
}

/// The spelling of each byte in byte-level BPE (GPT-2): printable Latin-1 stands for itself, the
/// others follow from U+0100 on.
std::vector<std::string> byte_tokens() {
  std::vector<std::string> tokens;
  uint32_t next = 0x100;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte != 0xad);
    tokens.push_back(utf8(printable ? byte : next++));
  }
  return tokens;
}

}  // namespace

int64_t byte_vocab_size() {
  return static_cast<int64_t>(256 + kMerges.size() + kSpecials.size());
}

void add_byte_vocab(GgufWriter& writer, int64_t n_vocab) {
  std::vector<std::string> tokens = byte_tokens();
  std::vector<std::string> merges;
  for (const auto& [left, right] : kMerges) {
    tokens.push_back(fmt::format("{}{}", left, right));
    merges.push_back(fmt::format("{} {}", left, right));
  }
  std::vector<int32_t> kinds(tokens.size(), kNormal);
  const auto first_special = static_cast<uint32_t>(tokens.size());
  for (const Special& special : kSpecials) {
    tokens.emplace_back(special.text);
    kinds.push_back(special.kind);
  }
  while (static_cast<int64_t>(tokens.size()) < n_vocab) {
    tokens.push_back(fmt::format("[unused{}]", tokens.size()));
    kinds.push_back(kUnused);
  }
  writer.add("tokenizer.ggml.model", "gpt2");
  writer.add("tokenizer.ggml.pre", "gpt-2");
  writer.add_array("tokenizer.ggml.tokens", std::span<const std::string>(tokens));
  writer.add_array("tokenizer.ggml.token_type", std::span<const int32_t>(kinds));
  writer.add_array("tokenizer.ggml.merges", std::span<const std::string>(merges));
  writer.add("tokenizer.ggml.bos_token_id", first_special + kEndOfText);
  writer.add("tokenizer.ggml.eos_token_id", first_special + kEndOfTurn);
  writer.add("tokenizer.ggml.padding_token_id", first_special + kPad);
  writer.add("tokenizer.ggml.add_bos_token", false);
  writer.add("tokenizer.chat_template", kChatTemplate);
}

}  // namespace minfer::synth
