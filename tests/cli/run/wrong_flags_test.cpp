// Every kind of wrong command line, and the message that it gets.
#include <gtest/gtest.h>

#include "tiny_model.h"

namespace minfer {
namespace {

struct WrongFlags {
  const char* name;
  std::vector<std::string> arguments;  ///< "{model}" and "{folder}" stand for paths
  int status;
  std::vector<const char*> message;  ///< parts that the error must have
};

void PrintTo(const WrongFlags& wrong, std::ostream* out) {
  *out << wrong.name;
}

const WrongFlags kWrongFlags[] = {
    // Names.
    {"UnknownLongFlag", {"--promt", "x"}, 2, {"--promt: there is no such flag", "'--prompt'"}},
    {"UnknownTransposed", {"--qiuet"}, 2, {"--qiuet", "did you mean '--quiet'?"}},
    {"UnknownUnderscore", {"--top_p", "0.5"}, 2, {"--top_p", "did you mean '--top-p'?"}},
    {"UnknownWithValue", {"--devcie=cpu"}, 2, {"--devcie", "did you mean '--device'?"}},
    {"UnknownPlural", {"--list-device"}, 2, {"did you mean '--list-devices'?"}},
    {"UnknownFarFromAll", {"--frobnicate"}, 2, {"--frobnicate: there is no such flag", "--help"}},
    {"UnknownLetter", {"-x"}, 2, {"-x: there is no such flag"}},
    {"Abbreviated", {"--verb"}, 2, {"--verb", "did you mean '--verbose'?"}},
    {"StrayWord", {"-m", "{model}", "-p", "two", "words"}, 2, {"unexpected argument 'words'"}},
    {"Twice", {"-m", "{model}", "-p", "a", "-p", "b"}, 2, {"--prompt: given more than once"}},
    {"LastFlagWithoutValue", {"-m", "{model}", "-p", "x", "-n"}, 2, {"--tokens", "missing"}},
    {"FlagInPlaceOfValue", {"-m", "{model}", "-p", "-n", "1"}, 2, {"--prompt", "missing"}},
    {"ValueForASwitch", {"--json=1"}, 2, {"--json", "does not take any arguments"}},
    // What is needed.
    {"NoModel", {"-p", "x"}, 2, {"no model", "--config NAME or --model"}},
    {"EmptyModel", {"-m", "", "-p", "x"}, 2, {"--model: the file's name is empty"}},
    {"EmptyConfig", {"-c", "", "-p", "x"}, 2, {"--config: the file's name is empty"}},
    {"NoPrompt", {"-m", "{model}"}, 2, {"standard input is empty"}},
    {"TwoPrompts", {"-m", "{model}", "-p", "a", "-f", "b"}, 2, {"two prompts", "--prompt-file"}},
    {"QuietAndVerbose", {"-m", "{model}", "-q", "-v"}, 2, {"--quiet and --verbose", "contradict"}},
    {"DryRunWithLogits",
     {"-m", "{model}", "--dry-run", "--dump-logits", "{folder}/l"},
     2,
     {"--dump-logits", "computes no logits"}},
    // Numbers.
    {"TokensText", {"-m", "{model}", "-p", "x", "-n", "many"}, 2, {"--tokens: 'many'", "integer"}},
    {"TokensFraction", {"-m", "{model}", "-p", "x", "-n", "1.5"}, 2, {"--tokens: '1.5'"}},
    {"TokensTrailing", {"-m", "{model}", "-p", "x", "-n", "5x"}, 2, {"--tokens: '5x'"}},
    {"TokensEmpty", {"-m", "{model}", "-p", "x", "-n", ""}, 2, {"--tokens: ''"}},
    {"TokensBelow", {"-m", "{model}", "-p", "x", "-n", "-2"}, 2, {"--tokens: '-2'", "from -1"}},
    {"TokensBeyond", {"-m", "{model}", "-p", "x", "-n", "2147483648"}, 2, {"to 2147483647"}},
    {"CtxNegative", {"-m", "{model}", "-p", "x", "--ctx", "-1"}, 2, {"--ctx: '-1'", "from 0"}},
    {"CtxBeyond", {"-m", "{model}", "-p", "x", "--ctx", "16777217"}, 2, {"to 16777216"}},
    {"CtxBeyond64Bits",
     {"-m", "{model}", "-p", "x", "--ctx", "99999999999999999999"},
     2,
     {"--ctx: '99999999999999999999'"}},
    {"CtxBeyondMemory",
     {"-m", "{model}", "-p", "x", "--device", "cpu", "--ctx", "16777216", "--cache-type", "f32",
      "--batch", "65536"},
     9,
     {"needs", "are left", "lower context"}},
    {"BatchZero", {"-m", "{model}", "-p", "x", "--batch", "0"}, 2, {"--batch: '0'", "from 1"}},
    {"BatchBeyond", {"-m", "{model}", "-p", "x", "--batch", "70000"}, 2, {"to 65536"}},
    {"ThreadsNegative", {"-m", "{model}", "-p", "x", "-t", "-1"}, 2, {"--threads: '-1'"}},
    {"ThreadsBeyond", {"-m", "{model}", "-p", "x", "-t", "1025"}, 2, {"--threads", "to 1024"}},
    {"GpuLayersBelow", {"-m", "{model}", "-p", "x", "--gpu-layers", "-2"}, 2, {"--gpu-layers"}},
    {"SeedNegative", {"-m", "{model}", "-p", "x", "--seed=-1"}, 2, {"--seed: '-1'", "from 0"}},
    {"SeedBeyond",
     {"-m", "{model}", "-p", "x", "-s", "18446744073709551616"},
     2,
     {"--seed", "to 18446744073709551615"}},
    // Sampling.
    {"TempNegative", {"-m", "{model}", "-p", "x", "--temp", "-1"}, 2, {"--temp", "0 to 100"}},
    {"TempNan", {"-m", "{model}", "-p", "x", "--temp", "nan"}, 2, {"--temp", "nan"}},
    {"TempText",
     {"-m", "{model}", "-p", "x", "--temp", "hot"},
     2,
     {"--temp: 'hot' is not a number"}},
    {"TopPBeyond", {"-m", "{model}", "-p", "x", "--top-p", "1.5"}, 2, {"--top-p", "0 to 1"}},
    {"MinPBelow", {"-m", "{model}", "-p", "x", "--min-p", "-0.1"}, 2, {"--min-p", "0 to 1"}},
    {"TypicalInf", {"-m", "{model}", "-p", "x", "--typical-p", "inf"}, 2, {"--typical-p"}},
    {"TopKNegative", {"-m", "{model}", "-p", "x", "--top-k", "-1"}, 2, {"--top-k"}},
    {"RepeatPenaltyZero",
     {"-m", "{model}", "-p", "x", "--repeat-penalty", "0"},
     2,
     {"--repeat-penalty"}},
    {"RepeatLastBelow",
     {"-m", "{model}", "-p", "x", "--repeat-last-n", "-2"},
     2,
     {"--repeat-last-n"}},
    {"PresenceBeyond",
     {"-m", "{model}", "-p", "x", "--presence-penalty", "101"},
     2,
     {"--presence-penalty"}},
    {"FrequencyText",
     {"-m", "{model}", "-p", "x", "--frequency-penalty", "a"},
     2,
     {"--frequency-penalty"}},
    {"BiasWithoutValue",
     {"-m", "{model}", "-p", "x", "--logit-bias", "5"},
     2,
     {"--logit-bias: '5'", "29=-inf"}},
    {"BiasText", {"-m", "{model}", "-p", "x", "--logit-bias", "a=1"}, 2, {"--logit-bias: 'a=1'"}},
    {"BiasNan", {"-m", "{model}", "-p", "x", "--logit-bias", "1=nan"}, 2, {"--logit-bias"}},
    {"BiasOutsideVocabulary",
     {"-m", "{model}", "-p", "x", "--logit-bias", "320=1"},
     3,
     {"320", "vocabulary has 320"}},
    {"StopEmpty", {"-m", "{model}", "-p", "x", "--stop", ""}, 2, {"--stop", "1 to 1024"}},
    {"StopLong",
     {"-m", "{model}", "-p", "x", "--stop", std::string(1025, 's')},
     2,
     {"--stop: 1025 bytes"}},
    // Devices, plugins, gates.
    {"DeviceUnknown",
     {"-m", "{model}", "-p", "x", "--device", "vulkan"},
     4,
     {"device vulkan", "no plugin offers 'vulkan', looked in", "cpu:0", "--list-devices"}},
    {"DeviceBeyond",
     {"-m", "{model}", "-p", "x", "--device", "cpu:7"},
     4,
     {"device cpu:7", "cpu:0"}},
    {"DeviceTypo", {"-m", "{model}", "-p", "x", "--device", "cpi"}, 4, {"did you mean 'cpu'?"}},
    {"DeviceIndexText",
     {"-m", "{model}", "-p", "x", "--device", "cpu:x"},
     2,
     {"--device: 'x'", "255"}},
    {"DeviceNone",
     {"-m", "{model}", "-p", "x", "--device", ""},
     2,
     {"--device: no device is named"}},
    {"DeviceCommas", {"-m", "{model}", "-p", "x", "--device", ",,"}, 2, {"no device is named"}},
    {"DeviceNoName", {"-m", "{model}", "-p", "x", "--device", ":0"}, 2, {"':0' is not a device"}},
    {"PluginAbsent",
     {"-m", "{model}", "-p", "x", "--plugin", "{folder}/nope.so"},
     4,
     {"plugin {folder}/nope.so: does not exist"}},
    {"PluginNotALibrary",
     {"-m", "{model}", "-p", "x", "--plugin", "{model}"},
     8,
     {"plugin {model}: cannot be loaded", "invalid ELF header"}},
    {"PluginFolder",
     {"-m", "{model}", "-p", "x", "--plugin", "{folder}"},
     8,
     {"must be a regular file"}},
    {"PluginEmpty", {"-m", "{model}", "-p", "x", "--plugin", ""}, 2, {"--plugin", "name is empty"}},
    {"GateShape",
     {"-m", "{model}", "-p", "x", "--gate", "fast"},
     2,
     {"--gate: 'fast'", "NAME=VALUE"}},
    {"GateNoName", {"-m", "{model}", "-p", "x", "--gate", "cpu:=1"}, 2, {"--gate: 'cpu:=1'"}},
    {"GateUnknown",
     {"-m", "{model}", "-p", "x", "--gate", "cpu:MINFER_CPU_ISB=avx2"},
     2,
     {"no gate MINFER_CPU_ISB of 'cpu'", "'MINFER_CPU_ISA'"}},
    {"GateUnknownAnywhere", {"-m", "{model}", "-p", "x", "--gate", "NOPE=1"}, 2, {"no gate NOPE"}},
    {"GateOfAnother",
     {"-m", "{model}", "-p", "x", "--gate", "core:MINFER_CPU_ISA=avx2"},
     2,
     {"belongs to 'cpu'"}},
    {"GateValue",
     {"-m", "{model}", "-p", "x", "--gate", "cpu:MINFER_CPU_ISA=mmx"},
     2,
     {"--gate", "'mmx' is not one of auto, scalar"}},
    {"GateBool",
     {"-m", "{model}", "-p", "x", "--gate", "MINFER_OP_TIMING=perhaps"},
     2,
     {"'perhaps'"}},
    {"CacheType",
     {"-m", "{model}", "-p", "x", "--cache-type", "q4_0"},
     2,
     {"'q4_0'", "auto, f32, f16 or q8_0"}},
    // Outputs.
    {"GraphFolderAbsent",
     {"-m", "{model}", "--device", "cpu", "--dry-run", "--dump-graph", "{folder}/nope/g.dot"},
     5,
     {"{folder}/nope/g.dot: cannot be written: No such file"}},
    {"GraphIntoFolder",
     {"-m", "{model}", "--device", "cpu", "--dry-run", "--dump-graph", "{folder}"},
     5,
     {"cannot be written: Is a directory"}},
    {"GraphEmptyName",
     {"-m", "{model}", "-p", "x", "--dump-graph", ""},
     2,
     {"--dump-graph", "empty"}},
    {"LogitsFolderAbsent",
     {"-m", "{model}", "-p", "x", "--dump-logits", "{folder}/nope/l"},
     5,
     {"{folder}/nope/l: cannot be written"}},
    {"LogitsFullDisk",
     {"-m", "{model}", "--device", "cpu", "-p", "x", "--dump-logits", "/dev/full"},
     5,
     {"/dev/full: cannot be written: No space left"}},
};

class WrongFlag : public TinyModel, public testing::WithParamInterface<WrongFlags> {
 protected:
  static std::string fill(std::string text) {
    for (const auto& [mark, value] :
         {std::pair{"{model}", model()}, std::pair{"{folder}", folder().path().string()}})
      for (size_t at; (at = text.find(mark)) != std::string::npos;)
        text.replace(at, std::string_view(mark).size(), value);
    return text;
  }
};

TEST_P(WrongFlag, GetsItsMessage) {
  std::vector<std::string> arguments;
  for (const std::string& argument : GetParam().arguments) arguments.push_back(fill(argument));
  const ToolResult result = run_tool(MINFER_RUN, arguments);
  EXPECT_EQ(result.status, GetParam().status) << result.err;
  EXPECT_EQ(result.out, "");
  EXPECT_NE(result.err.find("minfer-run: error: "), std::string::npos) << result.err;
  for (const char* part : GetParam().message)
    EXPECT_NE(result.err.find(fill(part)), std::string::npos) << part << "\n" << result.err;
}

const auto name_of = [](const auto& test) { return std::string(test.param.name); };
INSTANTIATE_TEST_SUITE_P(Table, WrongFlag, testing::ValuesIn(kWrongFlags), name_of);

}  // namespace
}  // namespace minfer
