// Tiny random models in f32 against Hugging Face transformers: the graph of every architecture is
// right when the relative logit error is below 1e-4.
#include <gtest/gtest.h>

#include <cmath>

#include "golden_engine.h"
#include "golden_json.h"
#include "scratch.h"
#include "tiny_models.h"

namespace minfer::testing {
namespace {

namespace json = boost::json;

class Transformers : public ::testing::TestWithParam<std::tuple<const char*, const char*>> {};

double relative_error(std::span<const float> out, const json::array& expected) {
  double diff = 0, norm = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double e = expected[i].to_number<double>();
    diff += (out[i] - e) * (out[i] - e);
    norm += e * e;
  }
  return std::sqrt(diff / norm);
}

TEST_P(Transformers, LogitsAgree) {
  const auto [label, isa] = GetParam();
  const json::value golden = read_golden("transformers_tiny.json");
  const json::object* found = nullptr;
  for (const json::value& c : golden.at("cases").as_array())
    if (c.at("label").as_string() == label) found = &c.as_object();
  ASSERT_NE(found, nullptr) << label;

  const std::string_view name(label);
  TinyModel tiny;
  tiny.arch = std::string(found->at("arch").as_string());
  tiny.tied = name == "qwen2_tied" || name == "llama3" || name == "gemma3";
  tiny.rope_base = name == "llama3"                          ? 500000.0f
                   : name == "llama" || name == "qwen2_tied" ? 10000.0f
                                                             : 1e6f;
  if (const json::value* freqs = found->if_contains("rope_freqs"))
    for (const json::value& f : freqs->as_array()) tiny.rope_freqs.push_back(f.to_number<float>());

  const auto path = scratch("tiny-" + std::string(label) + "-" + isa + ".gguf");
  const auto written = write_tiny_model(path, tiny);
  ASSERT_TRUE(written) << written.error().message();

  EngineOptions options;
  options.context = 128;
  options.kv_type = MINFER_TYPE_F32;
  options.max_step_outputs = 64;
  auto opened = open_engine(path, options, {{"MINFER_CPU_ISA", isa}});
  ASSERT_TRUE(opened) << opened.error().message();
  Engine& engine = *opened->engine;

  std::vector<TokenId> tokens;
  for (const json::value& t : golden.at("tokens").as_array())
    tokens.push_back(t.to_number<TokenId>());
  const auto id = engine.sequence_new();
  ASSERT_TRUE(id) << id.error().message();
  const StepEntry entry{*id, tokens, true, true};
  const auto result = engine.step({&entry, 1});
  ASSERT_TRUE(result) << result.error().message();
  ASSERT_EQ(result->rows, tokens.size());
  const uint32_t vocab = engine.model().hparams().n_vocab;
  for (const auto& row : found->at("rows").as_object()) {
    const auto index = static_cast<uint32_t>(std::stoul(std::string(row.key())));
    EXPECT_LT(relative_error(result->row(index, vocab), row.value().as_array()), 1e-4)
        << label << ", token " << index;
  }
  std::filesystem::remove(path);
}

INSTANTIATE_TEST_SUITE_P(Tiny, Transformers,
                         ::testing::Combine(::testing::Values("qwen2", "qwen2_tied", "qwen3",
                                                              "llama", "llama3", "gemma3"),
                                            ::testing::Values("scalar", "auto")),
                         [](const auto& param) {
                           return std::string(std::get<0>(param.param)) + "_" +
                                  std::get<1>(param.param);
                         });

}  // namespace
}  // namespace minfer::testing
