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
constexpr std::string_view kCjk = R"([一-龥ࠀ-一가-퟿]+)";
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
constexpr std::string_view kBloom = R"( ?[^(\s|.,!?…。，、।۔،)]+)";
/// The letters of bicameral scripts as DeepSeek LLM enumerates them.
constexpr std::string_view kDeepseekLetters =
    R"(\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚ)"
    R"(Ḁ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤ)"
    R"(Ⳬ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+)";
constexpr std::string_view kDeepseekPunctuation = R"(\s?[!-/:-~！-／：-～‘-‟　-。]+)";
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
    R"(\p{N}{1,3})", R"([一-龥぀-ゟ゠-ヿ]+)",
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
constexpr Names kSmollmNames = {"smollm", "codeshell", "exaone", "minerva-7b"};
constexpr Names kStarcoderNames = {"starcoder"};
constexpr Names kRefactNames = {"refact"};
constexpr Names kCommandRNames = {"command-r"};
constexpr Names kFalconNames = {"falcon"};
constexpr Names kLlama3Names = {"llama-bpe", "llama3",   "llama-v3", "falcon3",     "falcon-h1",
                                "pixtral",   "midm-2.0", "lfm2",     "jina-v5-nano"};
constexpr Names kDbrxNames = {"dbrx", "smaug-bpe", "glm4", "chatglm-bpe"};
constexpr Names kQwen2Names = {"qwen2",  "deepseek-r1-qwen", "stablelm2",
                               "megrez", "hunyuan",          "solar-open"};
constexpr Names kQwen35Names = {"qwen35"};
constexpr Names kGpt4oNames = {"gpt-4o", "llama4", "kanana2"};
constexpr Names kTekkenNames = {"tekken"};
constexpr Names kBloomNames = {"bloom", "poro-chat", "gpt3-finnish"};
constexpr Names kVikingNames = {"viking"};
constexpr Names kDeepseekLlmNames = {"deepseek-llm"};
constexpr Names kDeepseekCoderNames = {"deepseek-coder"};
constexpr Names kDeepseekV3Names = {"deepseek-v3", "deepseek3", "hunyuan-dense", "joyai-llm"};
constexpr Names kSeedNames = {"seed-coder"};
constexpr Names kBailingNames = {"bailingmoe", "bailingmoe2", "llada-moe"};

constexpr PreRule kRules[] = {
    {kDefaultNames, kDefaultPatterns},
    {kGpt2Names, kGpt2Patterns},
    {kMptNames, kGpt2Patterns},
    {kSmollmNames, kDigitGpt2Patterns},
    {kStarcoderNames, kDigitGpt2Patterns},
    {kRefactNames, kDigitGpt2Patterns},
    {kCommandRNames, kDigitGpt2Patterns},
    {kFalconNames, kFalconPatterns},
    {kLlama3Names, kDigitsUpTo3Patterns, .ignore_merges = true, .add_bos = true},
    {kDbrxNames, kDigitsUpTo3Patterns},
    {kQwen2Names, kSingleDigitsPatterns},
    {kQwen35Names, kSingleDigitsMarksPatterns},
    {kGpt4oNames, kO200kPatterns},
    {kTekkenNames, kTekkenPatterns, .ignore_merges = true, .add_bos = true},
    {kBloomNames, kBloomPatterns},
    {kVikingNames, kVikingPatterns},
    {kDeepseekLlmNames, kDeepseekLlmPatterns},
    {kDeepseekCoderNames, kDeepseekCoderPatterns},
    {kDeepseekV3Names, kDeepseekV3Patterns},
    {kSeedNames, kSeedPatterns},
    {kBailingNames, kBailingPatterns},
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
