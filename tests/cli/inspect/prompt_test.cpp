// minfer-inspect --tokenize and --render, on a synthetic model with a byte-level vocabulary.
#include <gtest/gtest.h>

#include "gguf/writer.h"
#include "run_tool.h"

namespace minfer {
namespace {

class Prompt : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new WorkFolder;
    const ToolResult made = run_tool(
        MINFER_SYNTH, {"--preset", "tiny", "--vocab", "bytes", "-o", *folder_ / "bytes.gguf"});
    ASSERT_EQ(made.status, 0) << made.err;
    ASSERT_EQ(run_tool(MINFER_SYNTH, {"--preset", "tiny", "-o", *folder_ / "none.gguf"}).status, 0);
  }
  static void TearDownTestSuite() {
    delete folder_;
    folder_ = nullptr;
  }

  static ToolResult tokenize(std::string_view text, std::vector<std::string> more = {}) {
    std::vector<std::string> arguments = {*folder_ / "bytes.gguf", "--tokenize", "-"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_tool(MINFER_INSPECT, arguments, text);
  }
  static ToolResult render(std::string_view messages, std::vector<std::string> more = {}) {
    std::vector<std::string> arguments = {*folder_ / "bytes.gguf", "--render", "-"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_tool(MINFER_INSPECT, arguments, messages);
  }
  static std::string template_file(std::string_view source) {
    return folder_->write("t.jinja", source);
  }

  static inline WorkFolder* folder_ = nullptr;
};

TEST_F(Prompt, TokenizePrintsIdsOnOneLine) {
  const ToolResult result = tokenize("ABC\n");
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.out, "65 66 67 10\n");
}

TEST_F(Prompt, TokenizeReadsAFile) {
  const std::string text = folder_->write("text", "AB");
  const ToolResult result = run_tool(MINFER_INSPECT, {*folder_ / "bytes.gguf", "--tokenize", text});
  EXPECT_EQ(result.out, "65 66\n") << result.err;
}

TEST_F(Prompt, NoTextGivesNoIds) {
  EXPECT_EQ(tokenize("").out, "\n");
}

TEST_F(Prompt, SpecialTokensNeedTheFlag) {
  EXPECT_GT(tokenize("<|im_end|>").out.size(), 10u);
  EXPECT_EQ(tokenize("<|im_end|>", {"--parse-special"}).out, "306\n");
}

TEST_F(Prompt, AModelWithoutAVocabularySaysSo) {
  const ToolResult result =
      run_tool(MINFER_INSPECT, {*folder_ / "none.gguf", "--tokenize", "-"}, "x");
  EXPECT_EQ(result.status, 7);
  EXPECT_NE(result.err.find("tokenizer.ggml.model"), std::string::npos) << result.err;
}

TEST_F(Prompt, AMissingTextFileIsNamed) {
  const ToolResult result =
      run_tool(MINFER_INSPECT, {*folder_ / "bytes.gguf", "--tokenize", *folder_ / "absent"});
  EXPECT_EQ(result.status, 4);
  EXPECT_NE(result.err.find("absent: cannot open"), std::string::npos) << result.err;
}

TEST_F(Prompt, RendersAMessageListWithTheModelsTemplate) {
  const ToolResult result = render(R"([{"role": "user", "content": "Hi é"}])");
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.out, "<|im_start|>user\nHi é<|im_end|>\n");
}

TEST_F(Prompt, RendersAnObject) {
  const ToolResult result =
      render(R"({"messages": [{"role": "user", "content": "Hi"}], "add_generation_prompt": true})");
  EXPECT_EQ(result.out, "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n") << result.err;
}

TEST_F(Prompt, AddsNothingToThePrompt) {
  const ToolResult result = render("[]", {"--template", template_file("a")});
  EXPECT_EQ(result.out, "a") << result.err;
}

TEST_F(Prompt, SpecialTokensComeFromTheVocabularyUnlessGiven) {
  const std::string source = template_file("{{ bos_token }}|{{ eos_token }}");
  EXPECT_EQ(render("[]", {"--template", source}).out, "<|endoftext|>|<|im_end|>");
  EXPECT_EQ(
      render(R"({"messages": [], "bos_token": "B", "eos_token": "E"})", {"--template", source}).out,
      "B|E");
}

TEST_F(Prompt, OtherMembersReachTheTemplate) {
  const std::string source =
      template_file("{{ tools[0].name }} {{ enable_thinking }} {{ tools is defined }}");
  EXPECT_EQ(render(R"({"messages": [], "tools": [{"name": "f"}], "enable_thinking": false})",
                   {"--template", source})
                .out,
            "f False True");
  EXPECT_EQ(render("[]", {"--template", template_file("{{ tools is defined }}")}).out, "False");
}

TEST_F(Prompt, WrongConversationsAreExplained) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "wrong JSON"},
      {"[\n\n{]", "-:3: wrong JSON"},
      {"[] []", "wrong JSON"},
      {"42", "expected a list of messages"},
      {R"({"message": []})", "expected 'messages' to be a list"},
      {R"({"messages": "hi"})", "expected 'messages' to be a list"},
  };
  for (const auto& [input, says] : cases) {
    const ToolResult result = render(input);
    EXPECT_EQ(result.status, 3) << input;
    EXPECT_EQ(result.out, "");
    EXPECT_NE(result.err.find(says), std::string::npos) << input << " gave " << result.err;
  }
}

TEST_F(Prompt, AFailingTemplateIsExplained) {
  const ToolResult raised =
      render("[]", {"--template", template_file("a\n{{ raise_exception('no user turn') }}")});
  EXPECT_EQ(raised.status, 12);
  EXPECT_EQ(raised.out, "");
  EXPECT_NE(raised.err.find("no user turn"), std::string::npos) << raised.err;
  const ToolResult wrong = render("[]", {"--template", template_file("{% for %}")});
  EXPECT_EQ(wrong.status, 12);
}

TEST_F(Prompt, AModelWithoutATemplateSaysWhatToDo) {
  const ToolResult result =
      run_tool(MINFER_INSPECT, {*folder_ / "none.gguf", "--render", "-"}, "[]");
  EXPECT_EQ(result.status, 12);
  EXPECT_NE(result.err.find("give one with --template"), std::string::npos) << result.err;
}

}  // namespace
}  // namespace minfer
