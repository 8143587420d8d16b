// minfer-run answers: where prompts come from, what ends generation, seeds, and what is printed.
#include <gtest/gtest.h>

#include <algorithm>

#include "tiny_model.h"

namespace minfer {
namespace {

class Answer : public TinyModel {};

TEST_F(Answer, SameSeedSameText) {
  const auto first = run_json({"-p", "hello", "-n", "24", "--seed", "7"});
  const auto second = run_json({"-p", "hello", "-n", "24", "--seed", "7"});
  EXPECT_EQ(first.at("tokens"), second.at("tokens"));
  EXPECT_EQ(text_of(first, "text"), text_of(second, "text"));
  EXPECT_EQ(number_of(first, "seed"), 7);
  const auto other = run_json({"-p", "hello", "-n", "24", "--seed", "8"});
  EXPECT_NE(first.at("tokens"), other.at("tokens"));
}

TEST_F(Answer, DrawnSeedIsReportedAndReproduces) {
  const auto drawn = run_json({"-p", "hello", "-n", "24"});
  const auto again = run_json({"-p", "hello", "-n", "24"});
  EXPECT_NE(drawn.at("seed"), again.at("seed"));
  const std::string seed = boost::json::serialize(drawn.at("seed"));
  EXPECT_EQ(run_json({"-p", "hello", "-n", "24", "--seed", seed}).at("tokens"), drawn.at("tokens"));
}

TEST_F(Answer, TextIsWhatJsonSays) {
  const std::vector<std::string> arguments = {"-p", "hello", "-n", "16", "--seed", "3"};
  const std::string text = text_of(run_json(arguments), "text");
  const std::string out = run(arguments).out;
  EXPECT_EQ(out, text.ends_with('\n') ? text : text + "\n");
}

TEST_F(Answer, PromptFromFlagFileAndStandardInputIsTheSame) {
  const std::vector<std::string> greedy = {"--temp", "0", "-n", "8"};
  const auto with = [&](std::vector<std::string> more, std::string_view input = "") {
    more.insert(more.end(), greedy.begin(), greedy.end());
    return run_json(more, input);
  };
  const auto flag = with({"-p", "a question\nof two lines"});
  const std::string file = folder().write("prompt.txt", "a question\nof two lines\n");
  EXPECT_EQ(flag.at("tokens"), with({"-f", file}).at("tokens"));
  EXPECT_EQ(flag.at("tokens"), with({}, "a question\nof two lines\n").at("tokens"));
  EXPECT_EQ(number_of(flag, "prompt_tokens"),
            number_of(with({}, "a question\nof two lines"), "prompt_tokens"));
  // A flag's text is taken to the letter, and wins over standard input.
  EXPECT_EQ(number_of(flag, "prompt_tokens") + 1,
            number_of(with({"-p", "a question\nof two lines\n"}, "other"), "prompt_tokens"));
}

TEST_F(Answer, TemplateAndSystemPromptMakeThePromptLonger) {
  const std::vector<std::string> base = {"-p", "hello", "-n", "1"};
  const auto count = [&](std::vector<std::string> more) {
    more.insert(more.end(), base.begin(), base.end());
    return number_of(run_json(more), "prompt_tokens");
  };
  const int64_t plain = count({"--no-template"});
  EXPECT_LE(plain, 6);
  EXPECT_GT(count({}), plain);
  EXPECT_GT(count({"--system", "Be brief."}), count({}));
}

TEST_F(Answer, EndsAtTheAskedLength) {
  for (const int n : {0, 1, 2, 17}) {
    for (const char* temp : {"0", "0.8"}) {
      const auto run =
          run_json({"-p", "hello", "--ignore-end", "--temp", temp, "-n", std::to_string(n)});
      EXPECT_EQ(number_of(run, "generated_tokens"), n) << temp;
      EXPECT_EQ(text_of(run, "finish_reason"), "length") << temp;
    }
  }
}

TEST_F(Answer, SaysThatTheContextIsFull) {
  for (const char* temp : {"0", "0.8"}) {
    const std::vector<std::string> arguments = {
        "-p",     "hello", "--no-template", "--ctx", "20", "--ignore-end",
        "--temp", temp,    "--seed",        "1"};
    const auto json = run_json(arguments);
    EXPECT_EQ(text_of(json, "finish_reason"), "context-full");
    // The last token needs no position: it is not fed back.
    EXPECT_EQ(number_of(json, "prompt_tokens") + number_of(json, "generated_tokens"), 21);
    const ToolResult text = run(arguments);
    EXPECT_EQ(text.status, 0);
    EXPECT_NE(text.err.find("the context of 20 positions is full; generation stopped"),
              std::string::npos)
        << text.err;
  }
}

TEST_F(Answer, PromptThatFillsTheContextGivesOneToken) {
  const int64_t prompt = number_of(run_json({"-p", "hello", "-n", "1"}), "prompt_tokens");
  const auto full = run_json({"-p", "hello", "--ctx", std::to_string(prompt), "--ignore-end"});
  EXPECT_EQ(text_of(full, "finish_reason"), "context-full");
  EXPECT_EQ(number_of(full, "generated_tokens"), 1);
}

TEST_F(Answer, PromptLongerThanTheContextGivesBothNumbers) {
  const ToolResult result = run({"-p", "hello", "--ctx", "3"});
  const int64_t prompt = number_of(run_json({"-p", "hello", "-n", "1"}), "prompt_tokens");
  EXPECT_EQ(result.status, 11);
  EXPECT_NE(
      result.err.find("the prompt has " + std::to_string(prompt) + " tokens, the context holds 3"),
      std::string::npos)
      << result.err;
  EXPECT_EQ(result.out, "");
}

TEST_F(Answer, ContextDefaultsToWhatTheModelWasTrainedFor) {
  // The tiny model was "trained" for 2048, less than the default of 4096.
  EXPECT_EQ(number_of(run_json({"-p", "hello", "-n", "1"}), "context"), 2048);
  const ToolResult asked = run({"-p", "hello", "-n", "1", "--ctx", "4096"});
  EXPECT_NE(asked.err.find("longer than the 2048"), std::string::npos) << asked.err;
}

TEST_F(Answer, StopTextEndsBeforeIt) {
  const std::vector<std::string> arguments = {"-p",     "hello", "-n",          "60",
                                              "--seed", "5",     "--ignore-end"};
  const std::string whole = text_of(run_json(arguments), "text");
  ASSERT_GT(whole.size(), 30u);
  size_t at = 10;
  while ((static_cast<unsigned char>(whole[at]) & 0xc0) == 0x80) ++at;  // a character's start
  std::string stop = whole.substr(at, 3);
  for (size_t end = at + 3; (static_cast<unsigned char>(whole[end]) & 0xc0) == 0x80; ++end)
    stop += whole[end];
  std::vector<std::string> with_stop = arguments;
  with_stop.insert(with_stop.end(), {"--stop", "never appears", "--stop", stop});
  const auto stopped = run_json(with_stop);
  EXPECT_EQ(text_of(stopped, "text"), whole.substr(0, whole.find(stop)));
  EXPECT_EQ(text_of(stopped, "finish_reason"), "stop-string");
  EXPECT_EQ(text_of(stopped, "stop"), stop);
}

TEST_F(Answer, EveryEndTokenEndsUnlessIgnored) {
  // <|endoftext|> and <|im_end|> of the byte vocabulary: 256 bytes, 48 merges, special tokens.
  for (const char* token : {"304", "306"}) {
    const std::string bias = std::string(token) + "=500";
    for (const char* temp : {"0", "0.8"}) {
      const std::vector<std::string> certain = {"-p",           "x",  "-n",     "5",
                                                "--logit-bias", bias, "--temp", temp};
      const auto ended = run_json(certain);
      EXPECT_EQ(text_of(ended, "finish_reason"), "stop") << token;
      EXPECT_EQ(number_of(ended, "generated_tokens"), 0) << token;
      EXPECT_EQ(text_of(ended, "text"), "") << token;
    }
    const auto ignored = run_json({"-p", "x", "-n", "5", "--logit-bias", bias, "--ignore-end"});
    EXPECT_EQ(text_of(ignored, "finish_reason"), "length");
    EXPECT_EQ(number_of(ignored, "generated_tokens"), 5);
  }
}

TEST_F(Answer, BiasForbidsAToken) {
  const auto free = run_json({"-p", "hello", "-n", "1", "--temp", "0", "--ignore-end"});
  const std::string token = boost::json::serialize(free.at("tokens").as_array().at(0));
  const auto biased = run_json(
      {"-p", "hello", "-n", "1", "--temp", "0", "--ignore-end", "--logit-bias", token + "=-inf"});
  EXPECT_NE(free.at("tokens"), biased.at("tokens"));
}

TEST_F(Answer, ThreadsDoNotChangeGreedyTokens) {
  const auto tokens = [&](const char* threads) {
    return run_json({"-p", "hello", "-n", "16", "--temp", "0", "--threads", threads}).at("tokens");
  };
  EXPECT_EQ(tokens("1"), tokens("2"));
}

TEST_F(Answer, PromptsLongerThanAStepAreFedInParts) {
  // The scalar kernels round alike for every number of tokens.
  const std::string prompt(200, 'a');
  const auto tokens = [&](const char* batch) {
    return run_json({"-p", prompt, "-n", "16", "--temp", "0", "--batch", batch, "--gate",
                     "cpu:MINFER_CPU_ISA=scalar"})
        .at("tokens");
  };
  EXPECT_EQ(tokens("512"), tokens("7"));
}

TEST_F(Answer, BytesThatAreNotTextAreTaken) {
  const ToolResult result = run({"-p", "\xff\xfe\xc3", "--system", "\x80", "-n", "2", "--json"});
  EXPECT_EQ(result.status, 0) << result.err;
  boost::system::error_code failed;
  boost::json::parse(result.out, failed);
  EXPECT_FALSE(failed) << result.out;
}

TEST_F(Answer, EveryArchitectureAnswers) {
  for (const char* preset : {"tiny", "tiny-qwen3", "tiny-llama", "tiny-gemma3"}) {
    const std::string path = folder() / (std::string(preset) + "-arch.gguf");
    make(preset, "bytes", path);
    const ToolResult result = run_tool(MINFER_RUN, {"-m", path, "--device", "cpu", "-p", "hello",
                                                    "-n", "4", "--json", "--ignore-end"});
    EXPECT_EQ(result.status, 0) << preset << result.err;
    EXPECT_NE(result.out.find("\"generated_tokens\":4"), std::string::npos) << result.out;
  }
}

TEST_F(Answer, QuietSaysNothingElse) {
  const ToolResult result = run({"-p", "hello", "-n", "3", "--quiet"});
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.err, "");
}

TEST_F(Answer, OneLineTellsModelDeviceAndContext) {
  const ToolResult result = run({"-p", "hello", "-n", "3"});
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  EXPECT_NE(result.err.find("(qwen2, "), std::string::npos) << result.err;
  EXPECT_NE(result.err.find(" on cpu:0, context 2048"), std::string::npos) << result.err;
}

TEST_F(Answer, VerboseTellsMore) {
  const ToolResult result = run({"-p", "hello", "-n", "3", "--verbose"});
  EXPECT_NE(result.err.find("tokens of prompt after"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("loaded after"), std::string::npos) << result.err;
}

TEST_F(Answer, TimingHasRatesSeedAndMemory) {
  const ToolResult result = run({"-p", "hello", "-n", "8", "--timing", "--seed", "42"});
  for (const char* part : {"load ", "prefill ", "decode ", "tokens/s", "a token  p50",
                           "seed     42", "memory   cpu:0: "})
    EXPECT_NE(result.err.find(part), std::string::npos) << part << "\n" << result.err;
}

TEST_F(Answer, OperatorTimesOnRequest) {
  const ToolResult result =
      run({"-p", "hello", "-n", "4", "--gate", "core:MINFER_OP_TIMING=on", "--quiet"});
  EXPECT_EQ(result.status, 0);
  EXPECT_NE(result.err.find("MatMul"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("GB/s"), std::string::npos) << result.err;
}

}  // namespace
}  // namespace minfer
