// The schema: values, defaults, and what each kind of mistake is told.
#include "minfer/config.h"

#include <gtest/gtest.h>

#include <fstream>
#include <limits>
#include <set>

#include "config/schema.h"

namespace minfer {
namespace {

Error error_of(std::string_view yaml) {
  auto config = parse_config(yaml, "dir/a.yaml");
  EXPECT_FALSE(config) << "accepted: " << yaml;
  return config ? Error{} : config.error();
}

TEST(Config, ReadsEveryKey) {
  auto config = parse_config(R"(
model: m.gguf
backends:
  - cuda:1
  - {name: cpu}
  - {name: npu, device: 2, plugin: /opt/npu.so}
plugins: [/opt/a.so, /opt/b.so]
gpu_layers: 12
context: 2048
max_sequences: 4
batch: 256
threads: 3
cache_type: q8_0
sampling:
  temperature: 0
  top_k: 5
  top_p: 0.5
  min_p: 0.25
  typical_p: 0.75
  repeat_penalty: 1.1
  repeat_last_n: -1
  presence_penalty: -2
  frequency_penalty: 0.5
  logit_bias: {7: -inf, "9": 2.5}
  seed: 18446744073709551615
stop: ["\n\n", END]
system: |
  Be brief.
chat_template: t.jinja
max_tokens: 100
gates:
  core: {MINFER_OP_TIMING: on}
  cuda:
    MINFER_CUDA_GRAPHS: 0
)",
                             "dir/a.yaml");
  ASSERT_TRUE(config) << config.error().message();
  EXPECT_EQ(config->file, "dir/a.yaml");
  EXPECT_EQ(config->model_text, "m.gguf");
  EXPECT_EQ(config->model, "") << "resolved by load_config";
  ASSERT_EQ(config->backends.size(), 3u);
  EXPECT_EQ(config->backends[0].device_id(), "cuda:1");
  EXPECT_EQ(config->backends[1].device_id(), "cpu");
  EXPECT_EQ(config->backends[2].device_id(), "npu:2");
  EXPECT_EQ(config->backends[2].plugin, "/opt/npu.so");
  EXPECT_EQ(config->plugins, (std::vector<std::filesystem::path>{"/opt/a.so", "/opt/b.so"}));
  EXPECT_EQ(config->gpu_layers, 12);
  EXPECT_EQ(config->context, 2048u);
  EXPECT_EQ(config->max_sequences, 4u);
  EXPECT_EQ(config->batch, 256u);
  EXPECT_EQ(config->threads, 3u);
  EXPECT_EQ(config->cache_type, CacheType::kQ8_0);
  const SamplerParams& s = config->sampling;
  EXPECT_EQ(s.temperature, 0.0f);
  EXPECT_EQ(s.top_k, 5);
  EXPECT_EQ(s.top_p, 0.5f);
  EXPECT_EQ(s.min_p, 0.25f);
  EXPECT_EQ(s.typical_p, 0.75f);
  EXPECT_EQ(s.repeat_penalty, 1.1f);
  EXPECT_EQ(s.repeat_last_n, -1);
  EXPECT_EQ(s.presence_penalty, -2.0f);
  EXPECT_EQ(s.frequency_penalty, 0.5f);
  EXPECT_EQ(s.logit_bias, (std::vector<std::pair<TokenId, float>>{
                              {7, -std::numeric_limits<float>::infinity()}, {9, 2.5f}}));
  EXPECT_EQ(s.seed, 18446744073709551615u);
  EXPECT_EQ(config->stop, (std::vector<std::string>{"\n\n", "END"}));
  EXPECT_EQ(config->system, "Be brief.\n");
  EXPECT_EQ(config->chat_template, "dir/t.jinja");
  EXPECT_TRUE(config->use_template);
  EXPECT_EQ(config->max_tokens, 100);
  EXPECT_EQ(config->gates.at("core").at("MINFER_OP_TIMING"), "on");
  EXPECT_EQ(config->gate_locations.at("cuda").at("MINFER_CUDA_GRAPHS"), "dir/a.yaml:34:5");
  EXPECT_EQ(config->all_gates().at("cpu").at("MINFER_CPU_THREADS"), "3");
}

TEST(Config, EmptyTextGivesTheDefaults) {
  for (const char* yaml : {"", "# nothing\n", "---\n", "sampling:\n", "gates:\n  cpu:\n"}) {
    auto config = parse_config(yaml, "");
    ASSERT_TRUE(config) << yaml << config.error().message();
    EXPECT_EQ(config->context, RunConfig{}.context);
    EXPECT_EQ(config->sampling.top_k, SamplerParams{}.top_k);
    EXPECT_TRUE(config->all_gates().empty() || config->all_gates().at("cpu").empty());
  }
}

TEST(Config, SpecialValues) {
  auto config = parse_config(
      "gpu_layers: auto\nthreads: auto\nmax_tokens: auto\nchat_template: none\nbackends: cpu\n"
      "stop: x\nsampling: {seed: random}\n",
      "");
  ASSERT_TRUE(config) << config.error().message();
  EXPECT_EQ(config->gpu_layers, -1);
  EXPECT_EQ(config->threads, 0u);
  EXPECT_EQ(config->max_tokens, -1);
  EXPECT_FALSE(config->use_template);
  EXPECT_EQ(config->chat_template, "");
  EXPECT_EQ(config->backends[0].name, "cpu");
  EXPECT_EQ(config->stop, std::vector<std::string>{"x"});
  EXPECT_FALSE(config->sampling.seed);
}

TEST(Config, ATypoIsNamedWithPlaceAndNearestKey) {
  const Error error = error_of("model: a\nsampling:\n  temprature: 1\n");
  EXPECT_EQ(error.code, ErrorCode::kConfig);
  EXPECT_EQ(
      error.message(),
      "dir/a.yaml:3:3: unknown key 'temprature' under 'sampling' (did you mean 'temperature'?)");
  EXPECT_EQ(error_of("contxt: 1\n").message(),
            "dir/a.yaml:1:1: unknown key 'contxt' (did you mean 'context'?)");
  EXPECT_EQ(error_of("xyzzy: 1\n").message(), "dir/a.yaml:1:1: unknown key 'xyzzy'");
}

TEST(Config, ADuplicateKeyIsNamedWithBothPlaces) {
  EXPECT_EQ(error_of("context: 1\nmodel: a\ncontext: 2\n").message(),
            "dir/a.yaml:3:1: key 'context' is already given in line 1");
  EXPECT_EQ(error_of("sampling: {top_k: 1, top_k: 2}\n").where, "dir/a.yaml:1:22");
}

struct Mistake {
  const char* yaml;
  const char* where;
  const char* part;
};

void PrintTo(const Mistake& mistake, std::ostream* out) {
  *out << mistake.yaml;
}

class Mistakes : public ::testing::TestWithParam<Mistake> {};

TEST_P(Mistakes, AreExplained) {
  const Error error = error_of(GetParam().yaml);
  EXPECT_EQ(error.code, ErrorCode::kConfig);
  EXPECT_EQ(error.where, GetParam().where) << error.message();
  EXPECT_NE(error.message().find(GetParam().part), std::string::npos) << error.message();
}

INSTANTIATE_TEST_SUITE_P(
    Config, Mistakes,
    ::testing::Values(
        Mistake{"context: big", "dir/a.yaml:1:10",
                "'context' must be an integer from 0 to 16777216; found 'big'"},
        Mistake{"context: -1", "dir/a.yaml:1:10", "found '-1'"},
        Mistake{"context: 4096.0", "dir/a.yaml:1:10", "found '4096.0'"},
        Mistake{"context: '4096'", "dir/a.yaml:1:10", "an integer"},
        Mistake{"context: 99999999999999999999", "dir/a.yaml:1:10", "an integer"},
        Mistake{"context: [1]", "dir/a.yaml:1:10", "found a list"},
        Mistake{"context:", "dir/a.yaml:1:1", "found nothing"},
        Mistake{"context: 0x10", "dir/a.yaml:1:10", "found '0x10'"},
        Mistake{"batch: 0", "dir/a.yaml:1:8", "1 to 65536"},
        Mistake{"max_sequences: 0", "dir/a.yaml:1:16", "1 to 4096"},
        Mistake{"threads: 0", "dir/a.yaml:1:10", "auto or an integer from 1 to 1024"},
        Mistake{"gpu_layers: all", "dir/a.yaml:1:13", "auto or an integer from 0"},
        Mistake{"max_tokens: -2", "dir/a.yaml:1:13", "auto or an integer from 0"},
        Mistake{"cache_type: q8", "dir/a.yaml:1:13", "did you mean 'q8_0'?"},
        Mistake{"model: [a]", "dir/a.yaml:1:8", "'model' must be text; found a list"},
        Mistake{"system: {a: b}", "dir/a.yaml:1:9", "found a group of keys"},
        Mistake{"sampling: 3", "dir/a.yaml:1:11", "'sampling' must be a group of keys; found '3'"},
        Mistake{"sampling: {temperature: -0.1}", "dir/a.yaml:1:25", "a number from 0 to 100"},
        Mistake{"sampling: {temperature: .nan}", "dir/a.yaml:1:25", "a number"},
        Mistake{"sampling: {temperature: 1e99}", "dir/a.yaml:1:25", "a number"},
        Mistake{"sampling: {top_p: 1.5}", "dir/a.yaml:1:19", "from 0 to 1"},
        Mistake{"sampling: {repeat_penalty: 0}", "dir/a.yaml:1:28", "from 0.01 to 100"},
        Mistake{"sampling: {repeat_last_n: -2}", "dir/a.yaml:1:27", "from -1 to"},
        Mistake{"sampling: {seed: -1}", "dir/a.yaml:1:18", "random or an integer"},
        Mistake{"sampling: {logit_bias: [1]}", "dir/a.yaml:1:24", "TOKEN_ID: NUMBER"},
        Mistake{"sampling: {logit_bias: {a: 1}}", "dir/a.yaml:1:25", "token ids"},
        Mistake{"sampling: {logit_bias: {-1: 1}}", "dir/a.yaml:1:25", "token ids"},
        Mistake{"sampling: {logit_bias: {1: -1001}}", "dir/a.yaml:1:28", "-inf to forbid"},
        Mistake{"sampling: {logit_bias: {1: inf}}", "dir/a.yaml:1:28", "-inf to forbid"},
        Mistake{"stop: ['']", "dir/a.yaml:1:8", "1 to 1024 bytes"},
        Mistake{"stop: {a: b}", "dir/a.yaml:1:7", "'stop' must be text"},
        Mistake{"backends: [CUDA]", "dir/a.yaml:1:12", "lower-case"},
        Mistake{"backends: [cuda:x]", "dir/a.yaml:1:12", "NAME:NUMBER"},
        Mistake{"backends: [cuda:999]", "dir/a.yaml:1:12", "0 to 255"},
        Mistake{"backends: [cpu, cpu]", "dir/a.yaml:1:17", "listed twice"},
        Mistake{"backends: [{device: 1}]", "dir/a.yaml:1:12", "have a 'name'"},
        Mistake{"backends: [{name: 'cuda:0', device: 1}]", "dir/a.yaml:1:12", "given once"},
        Mistake{"backends: [{name: cpu, plugn: /a}]", "dir/a.yaml:1:24", "did you mean 'plugin'?"},
        Mistake{"backends: [{name: cpu, plugin: a.so}]", "dir/a.yaml:1:32",
                "an absolute path; found 'a.so'"},
        Mistake{"plugins: a.so", "dir/a.yaml:1:10", "a list"},
        Mistake{"plugins: [a.so]", "dir/a.yaml:1:11", "an absolute path"},
        Mistake{"chat_template: []", "dir/a.yaml:1:16", "auto, none or the path"},
        Mistake{"gates: {MINFER_X: 1}", "dir/a.yaml:1:9", "under gates.core or a backend"},
        Mistake{"gates: {cpu: 1}", "dir/a.yaml:1:14", "'gates.cpu' must be a group"},
        Mistake{"gates: {cpu: {MINFER_X: [1]}}", "dir/a.yaml:1:25", "a gate's value"},
        Mistake{"threads: 2\ngates: {cpu: {MINFER_CPU_THREADS: 3}}", "dir/a.yaml:1:10",
                "the same thing"},
        Mistake{"[1, 2]", "dir/a.yaml:1:1", "'the config' must be a group of keys; found a list"},
        Mistake{"just text", "dir/a.yaml:1:1", "found 'just text'"},
        Mistake{"? [a]\n: b", "dir/a.yaml:1:3", "a key must be a name; found a list"},
        Mistake{"a: &x 1\nb: *x", "dir/a.yaml:2:4", "aliases"},
        Mistake{"model: !!binary abc", "dir/a.yaml:1:8", "tags"},
        Mistake{"a: 1\n---\nb: 2", "dir/a.yaml", "more than one document"},
        Mistake{"model: 'open", "dir/a.yaml:1:13", "not valid YAML"},
        Mistake{"model: a\n\tcontext: 1", "dir/a.yaml:2:1", "not valid YAML"}));

TEST(Config, SizeDepthAndNodesAreBounded) {
  std::string deep;
  for (int i = 0; i < 100000; ++i) deep += '[';
  EXPECT_NE(error_of(deep).message().find("nested deeper than 32"), std::string::npos);
  std::string wide = "stop: [";
  for (int i = 0; i < 30000; ++i) wide += "a,";
  EXPECT_NE(error_of(wide + "]").message().find("more than 20000 values"), std::string::npos);
  EXPECT_NE(error_of(std::string((1 << 20) + 1, ' ')).message().find("at most 1048576"),
            std::string::npos);
  EXPECT_NE(error_of(std::string_view("a: \0b", 5)).message().find("NUL"), std::string::npos);
  // Nested aliases that would expand to a billion values are refused at the first one.
  EXPECT_NE(error_of("a: &a [x,x]\nb: &b [*a,*a]\nc: &c [*b,*b]\n").message().find("aliases"),
            std::string::npos);
}

// docs/config.md lists each key of the schema in a table row that starts with it.
TEST(Config, TheDocumentListsEveryKeyAndNoOther) {
  std::ifstream file(MINFER_SOURCE_DIR "/docs/config.md");
  ASSERT_TRUE(file);
  std::set<std::string> documented;
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("| `")) documented.insert(line.substr(3, line.find('`', 3) - 3));
  const std::vector<std::string> keys = config_keys();
  EXPECT_EQ(documented, std::set<std::string>(keys.begin(), keys.end()));
}

}  // namespace
}  // namespace minfer
