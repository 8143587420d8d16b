#include "text/tokenizer/pre_rules.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <vector>

namespace minfer::tok {
namespace {

using Names = std::string_view[];

// Patterns shared by several rules. They are those of the published tokenizer.json (or tiktoken)
// files; where one is written differently, it says why.

constexpr std::string_view kGpt2 =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kDigit = R"(\p{N})";
constexpr std::string_view kNewline = R"([\r\n])";
/// Han, from the first to the last ideograph of the basic block, kana and Hangul as DeepSeek cuts
/// them.
constexpr std::string_view kCjk = R"([\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+)";
/// The cl100k family differs in how digits are grouped.
constexpr std::string_view kDigitsUpTo3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3})"
    R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kSingleDigits =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N})"
    R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kSingleDigitsMarks =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N})"
    R"(| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
/// o200k: words end where lower case turns to upper case.
constexpr std::string_view kO200k =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kTekken =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
/// Everything but white space and sentence punctuation of several scripts, as BLOOM cuts it.
constexpr std::string_view kBloom =
    R"( ?[^(\s|.,!?\x{2026}\x{3002}\x{FF0C}\x{3001}\x{964}\x{6D4}\x{60C})]+)";
/// Letters with case, as DeepSeek LLM enumerates them. By number, since some look like others:
/// U+212A is not K.
constexpr std::string_view kDeepseekLetters =
    R"(\s?[A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF})"
    R"(\x{1C4}-\x{293}\x{295}-\x{2AF}\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F})"
    R"(\x{386}\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1}\x{3A3}-\x{3F5}\x{3F7}-\x{481})"
    R"(\x{48A}-\x{52F}\x{531}-\x{556}\x{10A0}-\x{10C5}\x{13A0}-\x{13F5}\x{13F8}-\x{13FD})"
    R"(\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77})"
    R"(\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45})"
    R"(\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D}\x{1F5F}-\x{1F7D})"
    R"(\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC})"
    R"(\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4})"
    R"(\x{1FF6}-\x{1FFC}\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124})"
    R"(\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F})"
    R"(\x{2145}-\x{2149}\x{214E}\x{2183}\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4})"
    R"(\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D}\x{A680}-\x{A69B}\x{A722}-\x{A76F})"
    R"(\x{A771}-\x{A787}\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06})"
    R"(\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A}\x{10400}-\x{1044F})"
    R"(\x{104B0}-\x{104D3}\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2})"
    R"(\x{118A0}-\x{118DF}\x{1E900}-\x{1E943}]+)";
constexpr std::string_view kDeepseekPunctuation =
    R"(\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+)";
/// White space up to the end. Published without the look-behind, which changes no match but keeps a
/// long run that does not reach the end from being tried again at each of its characters.
constexpr std::string_view kTrailingSpace = R"((?<!\s)\s+$)";

constexpr std::string_view kDefaultPatterns[] = {R"([\p{P}\$\+<=>\^~\|]+)", kGpt2, R"(\p{N}+)",
                                                 "[0-9][0-9][0-9]"};
constexpr std::string_view kGpt2Patterns[] = {kGpt2};
constexpr std::string_view kDigitGpt2Patterns[] = {kDigit, kGpt2};
constexpr std::string_view kFalconPatterns[] = {R"([\p{P}\$\+<=>\^~\|`]+)", kGpt2,
                                                "[0-9][0-9][0-9]"};
constexpr std::string_view kDigitsUpTo3Patterns[] = {kDigitsUpTo3};
constexpr std::string_view kSingleDigitsPatterns[] = {kSingleDigits};
constexpr std::string_view kSingleDigitsMarksPatterns[] = {kSingleDigitsMarks};
constexpr std::string_view kO200kPatterns[] = {kO200k};
constexpr std::string_view kTekkenPatterns[] = {kTekken};
constexpr std::string_view kBloomPatterns[] = {kBloom};
constexpr std::string_view kVikingPatterns[] = {kBloom, kDigit};
constexpr std::string_view kDeepseekLlmPatterns[] = {
    kNewline, kDeepseekLetters, kDeepseekPunctuation, kTrailingSpace, kCjk, R"(\p{N}+)"};
constexpr std::string_view kDeepseekCoderPatterns[] = {kNewline, R"(\s?\p{L}+)", R"(\s?\p{P}+)",
                                                       kCjk, kDigit};
constexpr std::string_view kDeepseekV3Patterns[] = {
    R"(\p{N}{1,3})", R"([\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)",
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+)"
    R"(| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};
constexpr std::string_view kSeedPatterns[] = {
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N})"
    R"(| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+)"};
constexpr std::string_view kBailingPatterns[] = {
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N})"
    R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)"};

constexpr Names kDefaultNames = {"default"};
constexpr Names kGpt2Names = {
    "gpt-2",       "phi-2",        "jina-es",     "jina-de",  "jina-v2-es", "jina-v2-de",
    "jina-v1-en",  "jina-v2-code", "roberta-bpe", "gigachat", "a.x-4.0",    "mellum",
    "modern-bert", "exaone4",      "olmo",        "jais",     "trillion",   "granite-docling"};
constexpr Names kMptNames = {"mpt"};
constexpr Names kSmollmNames = {"smollm", "codeshell", "exaone", "minerva-7b", "mellum2"};
constexpr Names kStarcoderNames = {"starcoder"};
constexpr Names kRefactNames = {"refact"};
constexpr Names kCommandRNames = {"command-r"};
constexpr Names kFalconNames = {"falcon"};
constexpr Names kLlama3Names = {"llama-bpe", "llama3",   "llama-v3", "falcon3",     "falcon-h1",
                                "pixtral",   "midm-2.0", "lfm2",     "jina-v5-nano"};
constexpr Names kDbrxNames = {"dbrx", "smaug-bpe", "glm4", "chatglm-bpe"};
constexpr Names kQwen2Names = {"qwen2",  "deepseek-r1-qwen", "stablelm2",
                               "megrez", "hunyuan",          "solar-open",
                               "kormo",  "f2llmv2",          "grok-2"};
constexpr Names kQwen35Names = {"qwen35"};
constexpr Names kGpt4oNames = {"gpt-4o", "llama4", "kanana2", "minimax-m2",
                               "granite-embed-multi-97m"};
constexpr Names kTekkenNames = {"tekken"};
constexpr Names kBloomNames = {"bloom", "poro-chat", "gpt3-finnish"};
constexpr Names kVikingNames = {"viking"};
constexpr Names kDeepseekLlmNames = {"deepseek-llm"};
constexpr Names kDeepseekCoderNames = {"deepseek-coder"};
constexpr Names kDeepseekV3Names = {"deepseek-v3", "hunyuan-dense", "joyai-llm"};
constexpr Names kSeedNames = {"seed-coder"};
constexpr Names kBailingNames = {"bailingmoe", "bailingmoe2", "llada-moe"};

constexpr PreRule kRules[] = {
    {.names = kDefaultNames, .patterns = kDefaultPatterns},
    {.names = kGpt2Names, .patterns = kGpt2Patterns},
    {.names = kMptNames, .patterns = kGpt2Patterns},
    {.names = kSmollmNames, .patterns = kDigitGpt2Patterns},
    {.names = kStarcoderNames, .patterns = kDigitGpt2Patterns},
    {.names = kRefactNames, .patterns = kDigitGpt2Patterns},
    {.names = kCommandRNames, .patterns = kDigitGpt2Patterns},
    {.names = kFalconNames, .patterns = kFalconPatterns},
    {.names = kLlama3Names,
     .patterns = kDigitsUpTo3Patterns,
     .ignore_merges = true,
     .add_bos = true},
    {.names = kDbrxNames, .patterns = kDigitsUpTo3Patterns},
    {.names = kQwen2Names, .patterns = kSingleDigitsPatterns},
    {.names = kQwen35Names, .patterns = kSingleDigitsMarksPatterns},
    {.names = kGpt4oNames, .patterns = kO200kPatterns},
    {.names = kTekkenNames, .patterns = kTekkenPatterns, .ignore_merges = true, .add_bos = true},
    {.names = kBloomNames, .patterns = kBloomPatterns},
    {.names = kVikingNames, .patterns = kVikingPatterns},
    {.names = kDeepseekLlmNames, .patterns = kDeepseekLlmPatterns},
    {.names = kDeepseekCoderNames, .patterns = kDeepseekCoderPatterns},
    {.names = kDeepseekV3Names, .patterns = kDeepseekV3Patterns},
    {.names = kSeedNames, .patterns = kSeedPatterns},
    {.names = kBailingNames, .patterns = kBailingPatterns},
};

}  // namespace

std::span<const PreRule> all_pre_rules() {
  return kRules;
}

const PreRule* find_pre_rule(std::string_view name) {
  for (const PreRule& rule : kRules) {
    if (std::find(rule.names.begin(), rule.names.end(), name) != rule.names.end()) return &rule;
  }
  return nullptr;
}

std::string pre_rule_names() {
  std::vector<std::string_view> names;
  for (const PreRule& rule : kRules) names.push_back(rule.names[0]);
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace minfer::tok
