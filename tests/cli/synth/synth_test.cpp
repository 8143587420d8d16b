// minfer-synth: its files open, are models that the architectures accept, and hold sane weights.
#include <gtest/gtest.h>

#include <cmath>

#include "man_page.h"
#include "minfer/gguf.h"
#include "minfer/model.h"
#include "minfer/quant_blocks.h"
#include "minfer/tokenizer.h"
#include "run_tool.h"

namespace minfer {
namespace {

ToolResult synth(const std::vector<std::string>& arguments) {
  return run_tool(MINFER_SYNTH, arguments);
}

std::shared_ptr<const GgufFile> open_synthetic(const std::string& path,
                                               std::vector<std::string> arguments) {
  arguments.insert(arguments.end(), {"-o", path});
  const ToolResult made = synth(arguments);
  EXPECT_EQ(made.status, 0) << made.err;
  const auto file = GgufFile::open(path, {.require_supported_types = true});
  EXPECT_TRUE(file) << file.error().message();
  return file ? *file : nullptr;
}

/// Root mean square of a tensor's dequantised values.
double rms_of(const GgufFile& file, const GgufTensor& tensor) {
  const uint64_t n = tensor.bytes / tensor.type->block_bytes * tensor.type->block_elements;
  std::vector<float> values(n);
  minfer_dequantize_row(tensor.type->id, file.data(tensor), static_cast<int64_t>(n), values.data());
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value) * value;
  return std::sqrt(sum / static_cast<double>(n));
}

class EveryQuant : public testing::TestWithParam<const char*> {};

TEST_P(EveryQuant, GivesWeightsOfTheRightSize) {
  const WorkFolder folder;
  const auto file = open_synthetic(folder / "m.gguf", {"--preset", "tiny", "--quant", GetParam()});
  ASSERT_NE(file, nullptr);
  for (const GgufTensor& tensor : file->tensors()) {
    const double rms = rms_of(*file, tensor);
    const bool is_norm = tensor.name.ends_with("norm.weight");
    const double expected = is_norm ? 1 : 1 / std::sqrt(static_cast<double>(tensor.ne[0]));
    EXPECT_GT(rms, expected * 0.7) << tensor.name << " " << tensor.type->name;
    EXPECT_LT(rms, expected * 1.42) << tensor.name << " " << tensor.type->name;
  }
}

const auto quant_name = [](const auto& test) { return std::string(test.param); };
INSTANTIATE_TEST_SUITE_P(Types, EveryQuant,
                         testing::Values("f32", "f16", "bf16", "q4_0", "q4_1", "q5_0", "q5_1",
                                         "q8_0", "q2_k", "q3_k", "q4_k", "q4_k_m", "q5_k", "q5_k_m",
                                         "q6_k", "iq4_nl", "iq4_xs", "mxfp4"),
                         quant_name);

TEST(Synth, CoversEverySupportedType) {
  const std::string help = synth({"--help"}).out;
  for (const TypeInfo& type : all_types()) {
    if (!type.supported) continue;
    std::string name(type.name);
    for (char& c : name) c = static_cast<char>(std::tolower(c));
    EXPECT_NE(help.find(name), std::string::npos) << name;
  }
}

class EveryArchitecture : public testing::TestWithParam<const char*> {};

TEST_P(EveryArchitecture, IsAcceptedAsAModel) {
  const WorkFolder folder;
  for (const char* head : {"tied", "untied"}) {
    const auto file = open_synthetic(folder / "m.gguf", {"--preset", GetParam(), "--quant", "q8_0",
                                                         "--head", head, "--vocab", "bytes"});
    ASSERT_NE(file, nullptr);
    EXPECT_EQ(file->tensor("output.weight") == nullptr, std::string_view(head) == "tied");
    const auto model = Model::create(file);
    EXPECT_TRUE(model) << model.error().message();
  }
}

const auto arch_name = [](const auto& test) {
  std::string name = test.param;
  for (char& c : name) c = c == '-' ? '_' : c;
  return name;
};
INSTANTIATE_TEST_SUITE_P(Tiny, EveryArchitecture,
                         testing::Values("tiny", "tiny-qwen3", "tiny-llama", "tiny-gemma3"),
                         arch_name);

TEST(Synth, RealShapesAreAcceptedAsModels) {
  const WorkFolder folder;
  for (const char* preset : {"smollm2-135m", "qwen2.5-0.5b", "qwen3-0.6b", "gemma3-270m"}) {
    const auto file = open_synthetic(folder / "m.gguf",
                                     {"--preset", preset, "--layers", "1", "--vocab-size", "1024"});
    ASSERT_NE(file, nullptr);
    const auto model = Model::create(file);
    EXPECT_TRUE(model) << preset << ": " << model.error().message();
  }
}

TEST(Synth, MixesKeepSensitiveMatricesInABetterType) {
  const WorkFolder folder;
  const auto file =
      open_synthetic(folder / "m.gguf", {"--preset", "tiny", "--quant", "q4_k_m", "--layers", "8"});
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(file->tensor("output.weight")->type->name, "Q6_K");
  EXPECT_EQ(file->tensor("token_embd.weight")->type->name, "Q4_K");
  EXPECT_EQ(file->tensor("blk.0.ffn_down.weight")->type->name, "Q6_K");
  EXPECT_EQ(file->tensor("blk.1.ffn_down.weight")->type->name, "Q4_K");
  EXPECT_EQ(file->tensor("blk.3.attn_v.weight")->type->name, "Q6_K");
  EXPECT_EQ(file->tensor("blk.7.attn_v.weight")->type->name, "Q6_K");
  EXPECT_EQ(file->tensor("blk.7.attn_q.weight")->type->name, "Q4_K");
  EXPECT_EQ(file->tensor("blk.7.attn_norm.weight")->type->name, "F32");
}

TEST(Synth, RowsThatBlocksDoNotDivideFallBack) {
  const WorkFolder folder;
  const auto file = open_synthetic(
      folder / "m.gguf", {"--preset", "qwen2.5-0.5b", "--layers", "1", "--vocab-size", "512"});
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(file->tensor("blk.0.attn_q.weight")->type->name, "Q8_0") << "rows of 896";
  EXPECT_EQ(file->tensor("blk.0.ffn_down.weight")->type->name, "Q6_K") << "rows of 4864";
}

TEST(Synth, TheSeedDecidesTheBytes) {
  const WorkFolder folder;
  const auto bytes = [&](const char* seed) {
    synth({"--preset", "tiny", "--quant", "q4_0", "--seed", seed, "-o", folder / "m.gguf"});
    return read_file(folder / "m.gguf");
  };
  const std::string first = bytes("1");
  EXPECT_GT(first.size(), 700'000u);
  EXPECT_TRUE(bytes("1") == first);
  EXPECT_FALSE(bytes("2") == first);
}

TEST(Synth, TheByteVocabularySpellsAnyText) {
  const WorkFolder folder;
  const auto file = open_synthetic(folder / "m.gguf", {"--preset", "tiny", "--vocab", "bytes"});
  ASSERT_NE(file, nullptr);
  const auto tokenizer = Tokenizer::create(*file);
  ASSERT_TRUE(tokenizer) << tokenizer.error().message();
  EXPECT_EQ((*tokenizer)->vocab_size(), 320u);
  std::string text = "The end of the world, héllo 世界 🙂\n\t";
  for (int byte = 1; byte < 256; ++byte) text.push_back(static_cast<char>(byte));
  std::string back;
  const auto ids = (*tokenizer)->encode(text, false, false);
  for (const TokenId id : ids) back += (*tokenizer)->token_bytes(id);
  EXPECT_EQ(back, text);
  EXPECT_LT(ids.size(), text.size()) << "merges apply";
  const auto special = (*tokenizer)->encode("<|im_end|>", true, false);
  ASSERT_EQ(special.size(), 1u);
  EXPECT_EQ(special[0], (*tokenizer)->eos());
}

struct WrongUse {
  std::vector<std::string> arguments;
  std::string says;
};

TEST(Synth, WrongUseIsExplained) {
  const WrongUse cases[] = {
      {{}, "no --preset given (known are tiny, "},
      {{"--preset", "gpt5", "-o", "/dev/null"}, "unknown preset 'gpt5' (known are tiny, "},
      {{"--preset", "tiny", "--quant", "q9", "-o", "x"}, "--quant: unknown quantisation 'q9'"},
      {{"--preset", "tiny"}, "no output file given"},
      {{"--preset", "tiny", "--vocab", "words", "-o", "x"}, "--vocab is 'words'"},
      {{"--preset", "tiny", "--head", "both", "-o", "x"},
       "--head is 'both', expected tied or untied"},
      {{"--preset", "tiny", "--layers", "0", "-o", "x"}, "--layers is 0, expected 1 to"},
      {{"--preset", "tiny", "--vocab-size", "100", "--vocab", "bytes", "-o", "x"},
       "--vocab bytes needs"},
      {{"--preset", "tiny", "--vocab-size", "-5", "-o", "x"}, "--vocab-size is -5"},
      {{"--bogus"}, "unrecognised option '--bogus'"},
      {{"stray"}, "too many positional options"},
  };
  for (const WrongUse& wrong : cases) {
    const ToolResult result = synth(wrong.arguments);
    EXPECT_EQ(result.status, 2) << wrong.says;
    EXPECT_NE(result.err.find(wrong.says), std::string::npos) << result.err;
    EXPECT_EQ(result.out, "");
  }
}

TEST(Synth, AnImpossibleFolderIsAnError) {
  const ToolResult result = synth({"--preset", "tiny", "-o", "/nonexistent/m.gguf"});
  EXPECT_EQ(result.status, 5);
  EXPECT_NE(result.err.find("/nonexistent/m.gguf.part: cannot create the file"), std::string::npos)
      << result.err;
}

TEST(Synth, ListsItsPresets) {
  const ToolResult result = synth({"--list"});
  EXPECT_EQ(result.status, 0);
  for (const char* name :
       {"qwen2.5-1.5b", "llama3-8b", "gemma3-270m", "qwen3-8b", "smollm2-135m"}) {
    EXPECT_NE(result.out.find(name), std::string::npos) << name;
  }
}

TEST(Synth, EveryFlagIsInTheManual) {
  EXPECT_EQ(flags_without_manual(MINFER_SYNTH), std::vector<std::string>());
}

}  // namespace
}  // namespace minfer
