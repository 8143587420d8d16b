// Wrong configs, models, templates, prompts and environments, and the message that each gets.
#include <gtest/gtest.h>

#include "tiny_model.h"

namespace minfer {
namespace {

struct WrongConfig {
  const char* name;
  const char* yaml;  ///< lines after "model: tiny.gguf"
  int status;
  std::vector<const char*> message;
};

void PrintTo(const WrongConfig& wrong, std::ostream* out) {
  *out << wrong.name;
}

const WrongConfig kWrongConfigs[] = {
    {"UnknownKey", "contxt: 5", 3, {"c.yaml:2:1: unknown key 'contxt'", "'context'"}},
    {"UnknownSamplingKey", "sampling: {temprature: 1}", 3, {"c.yaml:2:12", "'temperature'"}},
    {"KeyTwice", "model: b.gguf", 3, {"c.yaml:2:1", "'model' is already given in line 1"}},
    {"NotYaml", "x: [", 3, {"c.yaml", "not valid YAML"}},
    {"ContextText", "context: many", 3, {"c.yaml:2:10: 'context'", "found 'many'"}},
    {"ContextList", "context: [1]", 3, {"'context'", "found a list"}},
    {"ContextNegative", "context: -1", 3, {"'context'", "found '-1'"}},
    {"TokensNegative", "max_tokens: -1", 3, {"'max_tokens' must be auto or an integer"}},
    {"BatchZero", "batch: 0", 3, {"'batch'", "from 1 to 65536"}},
    {"SequencesZero", "max_sequences: 0", 3, {"'max_sequences'"}},
    {"GpuLayersBelow", "gpu_layers: -2", 3, {"'gpu_layers'"}},
    {"ThreadsBeyond", "threads: 2000", 3, {"'threads'", "from 1 to 1024"}},
    {"CacheType", "cache_type: q4_0", 3, {"'cache_type'", "did you mean 'q8_0'?"}},
    {"SamplingScalar", "sampling: 3", 3, {"'sampling' must be a group of keys"}},
    {"TopPBeyond", "sampling: {top_p: 1.5}", 3, {"'top_p'", "from 0 to 1"}},
    {"SeedNegative", "sampling: {seed: -1}", 3, {"'seed'"}},
    {"BiasKey", "sampling: {logit_bias: {x: 1}}", 3, {"token ids; found 'x'"}},
    {"BiasOutside", "sampling: {logit_bias: {9999: 1}}", 3, {"9999", "vocabulary has 320"}},
    {"StopEmpty", "stop: ''", 3, {"'stop'"}},
    {"BackendAbsent", "backends: [vulkan]", 4, {"no plugin offers 'vulkan'"}},
    {"BackendCapitals", "backends: [CPU]", 3, {"'backends'", "lower-case"}},
    {"PluginRelative", "plugins: [x.so]", 3, {"an absolute path; found 'x.so'"}},
    {"PluginAbsent", "plugins: [/nope/x.so]", 4, {"plugin /nope/x.so: does not exist"}},
    {"BackendPluginAbsent", "backends: [{name: cpu, plugin: /nope/x.so}]", 4, {"/nope/x.so"}},
    {"GateUnknown", "gates: {cpu: {MINFER_CPU_ISB: avx2}}", 3, {"c.yaml:2:15", "'MINFER_CPU_ISA'"}},
    {"GateValue", "gates: {cpu: {MINFER_CPU_ISA: mmx}}", 3, {"c.yaml:2:15", "'mmx'"}},
    {"GateOutsideOwner", "gates: {MINFER_CPU_ISA: avx2}", 3, {"outside an owner's group"}},
    {"GateOfAnother", "gates: {core: {MINFER_CPU_ISA: avx2}}", 3, {"belongs under gates.cpu"}},
    {"ThreadsTwice",
     "gates: {cpu: {MINFER_CPU_THREADS: 2}}\nthreads: 1",
     3,
     {"set the same thing"}},
    {"TemplateAbsent", "chat_template: nope.jinja", 4, {"nope.jinja", "No such file"}},
    {"TemplateFolder", "chat_template: .", 5, {"Is a directory"}},
    {"TemplateBroken",
     "chat_template: broken.jinja",
     12,
     {"broken.jinja", "line 2", "--no-template"}},
    {"TemplateRefuses", "chat_template: refuses.jinja", 12, {"refuses.jinja", "only tests"}},
    {"TemplateEndless", "chat_template: endless.jinja", 12, {"endless.jinja", "--no-template"}},
    {"TemplateUndefined", "chat_template: undefined.jinja", 12, {"no attribute 'nope'"}},
};

class WrongConfigFile : public TinyModel, public testing::WithParamInterface<WrongConfig> {};

TEST_P(WrongConfigFile, GetsItsMessage) {
  folder().write("broken.jinja", "text\n{% if %}");
  folder().write("refuses.jinja", "{{ raise_exception('only tests') }}");
  folder().write("endless.jinja",
                 "{% for i in range(99999) %}{% for j in range(99999) %}x{% endfor %}{% endfor %}");
  folder().write("undefined.jinja", "{{ messages[0].nope.more }}");
  const std::string config =
      folder().write("c.yaml", std::string("model: tiny.gguf\n") + GetParam().yaml + "\n");
  const ToolResult result = run_tool(MINFER_RUN, {"--config", config, "-p", "x", "-n", "1"});
  EXPECT_EQ(result.status, GetParam().status) << result.err;
  EXPECT_EQ(result.out, "");
  for (const char* part : GetParam().message)
    EXPECT_NE(result.err.find(part), std::string::npos) << part << "\n" << result.err;
}

const auto config_name = [](const auto& test) { return std::string(test.param.name); };
INSTANTIATE_TEST_SUITE_P(Table, WrongConfigFile, testing::ValuesIn(kWrongConfigs), config_name);

class WrongFile : public TinyModel {
 protected:
  /// Runs, and expects status and parts of the message.
  static void expect(const std::vector<std::string>& arguments, int status,
                     const std::vector<std::string>& message, std::string_view input = "") {
    const ToolResult result = run_tool(MINFER_RUN, arguments, input);
    EXPECT_EQ(result.status, status) << result.err;
    EXPECT_EQ(result.out, "");
    for (const std::string& part : message)
      EXPECT_NE(result.err.find(part), std::string::npos) << part << "\n" << result.err;
  }
  static std::string write_config(const std::string& yaml) {
    return folder().write("c.yaml", yaml);
  }
};

TEST_F(WrongFile, ConfigAbsent) {
  expect({"-c", "nope.yaml", "-p", "x"}, 4,
         {"nope.yaml: no such config; looked for", "there are:", "smollm2-135m.yaml"});
}
TEST_F(WrongFile, ConfigNameMistyped) {
  expect({"-c", "smollm-135m", "-p", "x"}, 4, {"did you mean 'smollm2-135m.yaml'?"});
}
TEST_F(WrongFile, ConfigIsAFolder) {
  expect({"-c", folder().path(), "-p", "x"}, 4, {"is a folder; a config is a YAML file"});
}
TEST_F(WrongFile, ConfigIsAModel) {
  expect({"-c", model(), "-p", "x"}, 3, {model(), "a config has at most 1048576"});
}
TEST_F(WrongFile, ConfigIsEmpty) {
  expect({"-c", write_config(""), "-p", "x"}, 3, {"c.yaml: names no model", "--model"});
}
TEST_F(WrongFile, ConfigIsAList) {
  expect({"-c", write_config("[1, 2]\n"), "-p", "x"}, 3, {"c.yaml:1:1", "a group of keys"});
}
TEST_F(WrongFile, ConfigModelAbsent) {
  expect({"-c", write_config("model: nope.gguf\n"), "-p", "x"}, 4,
         {"c.yaml: model nope.gguf: no such model file; looked for",
          "comments say where its model comes from"});
}
TEST_F(WrongFile, ConfigModelMistyped) {
  expect({"-c", write_config("model: tinny.gguf\n"), "-p", "x"}, 4, {"did you mean 'tiny.gguf'?"});
}
TEST_F(WrongFile, ConfigModelAbsentButGivenByFlag) {
  const std::string config = write_config("model: nope.gguf\nmax_tokens: 2\n");
  const ToolResult result = run_tool(MINFER_RUN, {"-c", config, "-m", model(), "-p", "x"});
  EXPECT_EQ(result.status, 0) << result.err;
}
TEST_F(WrongFile, ShippedModelNotFetched) {
  const std::string empty = folder() / "empty-cache";
  std::filesystem::create_directory(empty);
  const char* before = std::getenv("XDG_CACHE_HOME");
  const std::string kept = before ? before : "";
  ::setenv("XDG_CACHE_HOME", empty.c_str(), 1);
  expect({"-c", "smollm2-135m.yaml", "-p", "x"}, 4,
         {"SmolLM2-135M-Instruct.Q4_1.gguf", empty + "/minfer/models/", "comments say where"});
  before ? ::setenv("XDG_CACHE_HOME", kept.c_str(), 1) : ::unsetenv("XDG_CACHE_HOME");
}
TEST_F(WrongFile, ModelAbsent) {
  expect({"-m", folder() / "nope.gguf", "-p", "x"}, 4, {"no such model file; looked for"});
}
TEST_F(WrongFile, ModelIsAFolder) {
  expect({"-m", folder().path(), "-p", "x"}, 4, {"is a folder; a model is a GGUF file"});
}
TEST_F(WrongFile, ModelIsADevice) {
  expect({"-m", "/dev/null", "-p", "x"}, 4, {"is not a regular file; a model is a GGUF file"});
}
TEST_F(WrongFile, ModelIsEmpty) {
  expect({"-m", folder().write("empty.gguf", ""), "-p", "x"}, 6, {"the file is empty"});
}
TEST_F(WrongFile, ModelIsText) {
  expect({"-m", folder().write("text.gguf", "hello, world"), "-p", "x"}, 6, {"'GGUF'", "'hell"});
}
TEST_F(WrongFile, ModelIsCutShort) {
  const std::string bytes = read_file(model());
  const std::string cut = folder().write("cut.gguf", std::string_view(bytes).substr(0, 100'000));
  expect({"-m", cut, "-p", "x"}, 6,
         {"cut short", "the file has 100000", std::to_string(bytes.size() - 100'000),
          "bytes are missing"});
}
TEST_F(WrongFile, ModelWithoutVocabulary) {
  const std::string path = folder() / "ids.gguf";
  make("tiny", "none", path);
  expect({"-m", path, "-p", "x"}, 7, {"ids.gguf", "no vocabulary"});
  EXPECT_EQ(run_tool(MINFER_RUN, {"-m", path, "--dry-run"}).status, 0);
}
TEST_F(WrongFile, PromptFileAbsent) {
  expect({"-m", model(), "-f", folder() / "nope.txt"}, 4, {"nope.txt", "No such file"});
}
TEST_F(WrongFile, PromptFileIsAFolder) {
  expect({"-m", model(), "-f", folder().path()}, 5, {"Is a directory"});
}
TEST_F(WrongFile, PromptFileWithoutEnd) {
  expect({"-m", model(), "-f", "/dev/zero"}, 2, {"/dev/zero: has more than 67108864 bytes"});
}
TEST_F(WrongFile, PromptEmptyWithoutTemplate) {
  expect({"-m", model(), "-p", "", "--no-template"}, 2, {"the prompt has no tokens"});
}
TEST_F(WrongFile, PromptOfAMegabyteDoesNotFit) {
  expect({"-m", model()}, 11, {"the prompt has ", "the context holds 2048"},
         std::string(1'000'000, 'a'));
}

class WrongEnvironment : public TinyModel {};

TEST_F(WrongEnvironment, GateValueIsAnErrorThatNamesIt) {
  ::setenv("MINFER_CPU_ISA", "mmx", 1);
  const ToolResult result = run({"-p", "x", "-n", "1"});
  ::unsetenv("MINFER_CPU_ISA");
  EXPECT_EQ(result.status, 3);
  EXPECT_NE(result.err.find("environment: gate MINFER_CPU_ISA: 'mmx'"), std::string::npos)
      << result.err;
}

TEST_F(WrongEnvironment, MistypedGateIsAWarning) {
  ::setenv("MINFER_CPU_IZA", "avx2", 1);
  const ToolResult result = run({"-p", "x", "-n", "1"});
  ::unsetenv("MINFER_CPU_IZA");
  EXPECT_EQ(result.status, 0);
  EXPECT_NE(result.err.find("MINFER_CPU_IZA is not a gate; did you mean MINFER_CPU_ISA?"),
            std::string::npos)
      << result.err;
}

TEST_F(WrongEnvironment, GatesOfAnAbsentBackendAreOneNote) {
  const ToolResult result = run({"-p", "x", "-n", "1", "--gate", "vulkan:ANY=1"});
  EXPECT_EQ(result.status, 0);
  EXPECT_NE(result.err.find("no backend 'vulkan' here"), std::string::npos) << result.err;
}

}  // namespace
}  // namespace minfer
