// minfer-run at a terminal and in a pipeline: no prompt, progress, Ctrl-C, readers that leave, full
// disks.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "process.h"
#include "sanitized.h"
#include "tiny_model.h"

namespace minfer {
namespace {

class Terminal : public TinyModel {
 protected:
  /// Generates for as long as the test lets it: far more text than the small pipe holds.
  static std::vector<std::string> endless(const char* temperature = "0") {
    return with_model({"-p", "hello", "--ignore-end", "--temp", temperature, "--ctx", "60000"});
  }
};

TEST_F(Terminal, NoPromptGivesUsageAndNoHang) {
  Process process(MINFER_RUN, with_model({}), {.in_terminal = true});
  EXPECT_EQ(process.wait(), 2);
  EXPECT_EQ(process.out(), "");
  EXPECT_NE(process.err().find("usage: minfer-run"), std::string::npos) << process.err();
  EXPECT_NE(process.err().find("no prompt"), std::string::npos) << process.err();
}

TEST_F(Terminal, NothingAtAllGivesUsage) {
  Process process(MINFER_RUN, {}, {.in_terminal = true});
  EXPECT_EQ(process.wait(), 2);
  EXPECT_NE(process.err().find("usage: minfer-run"), std::string::npos) << process.err();
  EXPECT_NE(process.err().find("no model"), std::string::npos) << process.err();
}

TEST_F(Terminal, ReportsNeedNoPrompt) {
  for (const char* flag : {"--dry-run", "--list-devices", "--list-gates"}) {
    Process process(MINFER_RUN, with_model({flag}), {.in_terminal = true});
    EXPECT_EQ(process.wait(), 0) << flag << process.err();
    EXPECT_NE(process.out(), "") << flag;
  }
}

TEST_F(Terminal, ProgressIsForTerminals) {
  const auto arguments = with_model({"-p", "hello", "-n", "2"});
  Process seen(MINFER_RUN, arguments, {.err_terminal = true});
  EXPECT_EQ(seen.wait(), 0);
  EXPECT_NE(seen.err().find("loading weights"), std::string::npos) << seen.err();
  // It wipes itself: the last thing on its line is the erasure.
  EXPECT_GT(seen.err().rfind("\r\033[K"), seen.err().rfind("loading weights"));
  EXPECT_EQ(seen.out().find("loading"), std::string::npos);

  Process piped(MINFER_RUN, arguments, {.out_terminal = true});
  EXPECT_EQ(piped.wait(), 0);
  EXPECT_EQ(piped.err().find("loading weights"), std::string::npos) << piped.err();

  Process quiet(MINFER_RUN, with_model({"-p", "hello", "-n", "2", "--quiet"}),
                {.err_terminal = true});
  EXPECT_EQ(quiet.wait(), 0);
  EXPECT_EQ(quiet.err(), "");
}

TEST_F(Terminal, InterruptEndsWithTextAndStatistics) {
  Process process(MINFER_RUN, endless(), {.out_pipe_bytes = 4096});
  ASSERT_TRUE(process.wait_for_out_bytes(16)) << process.err();
  process.signal(SIGINT);
  EXPECT_EQ(process.wait(), 130);
  EXPECT_GT(process.out().size(), 4u);
  EXPECT_TRUE(process.out().ends_with('\n'));
  EXPECT_NE(process.err().find("prefill"), std::string::npos) << process.err();
  EXPECT_NE(process.err().find("tokens/s"), std::string::npos) << process.err();
  EXPECT_EQ(process.err().find("error"), std::string::npos) << process.err();
}

TEST_F(Terminal, InterruptedJsonHasWhatWasMade) {
  auto arguments = endless();
  arguments.insert(arguments.end(), {"--json", "--verbose"});
  Process process(MINFER_RUN, arguments);
  ASSERT_TRUE(process.wait_for_err("loaded after")) << process.err();
  process.signal(SIGINT);
  EXPECT_EQ(process.wait(), 130);
  boost::system::error_code failed;
  const auto json = boost::json::parse(process.out(), failed);
  ASSERT_FALSE(failed) << process.out();
  EXPECT_EQ(text_of(json.as_object(), "finish_reason"), "interrupted");
}

TEST_F(Terminal, InterruptIsHeededWhileSampling) {
  auto arguments = endless("0.8");
  arguments.emplace_back("--verbose");
  Process process(MINFER_RUN, arguments, {.out_pipe_bytes = 4096});
  ASSERT_TRUE(process.wait_for_err("loaded after")) << process.err();
  process.signal(SIGINT);
  EXPECT_EQ(process.wait(), 130);
}

TEST_F(Terminal, InterruptWhileItWaitsForThePromptEndsIt) {
  const std::string fifo = folder() / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  Process process(MINFER_RUN, with_model({"-f", fifo}));
  // Opening for writing returns once the program has opened it for reading.
  const int writer = ::open(fifo.c_str(), O_WRONLY | O_CLOEXEC);
  process.signal(SIGINT);
  EXPECT_EQ(process.wait(), 130);
  ::close(writer);
}

TEST_F(Terminal, ReaderThatLeavesIsNoError) {
  for (const char* temp : {"0", "0.8"}) {
    Process process(MINFER_RUN, endless(temp), {.out_pipe_bytes = 4096});
    ASSERT_TRUE(process.wait_for_out_bytes(5)) << process.err();
    process.close_out();
    EXPECT_EQ(process.wait(), 0) << process.err();
    EXPECT_EQ(process.err().find("error"), std::string::npos) << process.err();
    EXPECT_EQ(process.err().find("full"), std::string::npos) << process.err();
  }
}

TEST_F(Terminal, ReaderThatLeavesAListIsNoError) {
  for (const char* flag : {"--help", "--version", "--list-devices", "--list-gates", "--dry-run"}) {
    Process process(MINFER_RUN, with_model({flag}));
    process.close_out();
    EXPECT_EQ(process.wait(), 0) << flag << process.err();
    EXPECT_EQ(process.err(), "") << flag;
  }
}

TEST_F(Terminal, FullDiskIsAnError) {
  if (::access("/dev/full", W_OK) != 0) GTEST_SKIP() << "no /dev/full here";
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"-p", "hello", "-n", "40"},
                                             {"-p", "hello", "-n", "40", "--temp", "0"},
                                             {"-p", "hello", "-n", "4", "--json"},
                                             {"--help"},
                                             {"--list-devices"},
                                             {"--dry-run"}}) {
    const ToolResult result = run_tool(MINFER_RUN, with_model(arguments), "", "/dev/full");
    EXPECT_EQ(result.status, 5) << arguments[0] << result.err;
    EXPECT_NE(result.err.find("standard output: cannot be written: No space left on device"),
              std::string::npos)
        << result.err;
  }
}

/// The program as a shell starts it, with these redirections or limits.
ToolResult in_shell(const std::string& line, const std::vector<std::string>& arguments) {
  std::vector<std::string> all = {"-c", line, MINFER_RUN};
  all.insert(all.end(), arguments.begin(), arguments.end());
  return run_tool("/bin/sh", all);
}

TEST_F(Terminal, StreamsThatAreNotThere) {
  const auto arguments = with_model({"-p", "hello", "-n", "4", "--temp", "0", "--timing"});
  const std::string text = run_tool(MINFER_RUN, arguments).out;
  EXPECT_EQ(in_shell("exec \"$0\" \"$@\" 2>&-", arguments).out, text);
  EXPECT_EQ(in_shell("exec \"$0\" \"$@\" <&-", arguments).out, text);
  EXPECT_EQ(in_shell("exec \"$0\" \"$@\" >&-", arguments).status, 5);
  EXPECT_EQ(in_shell("exec \"$0\" \"$@\" <&-", with_model({})).status, 5);
  if (::access("/dev/full", W_OK) == 0) {
    const ToolResult full = in_shell("exec \"$0\" \"$@\" 2>/dev/full", arguments);
    EXPECT_EQ(full.status, 0);
    EXPECT_EQ(full.out, text);
  }
}

TEST_F(Terminal, FilesDoNotTakeThePlaceOfMissingStreams) {
  const std::string path = folder() / "logits.f32";
  const auto arguments = with_model({"-p", "hello", "-n", "4", "--dump-logits", path});
  in_shell("exec \"$0\" \"$@\" <&- >&- 2>&-", arguments);
  EXPECT_EQ(read_file(path).size(), 320 * sizeof(float));
}

TEST_F(Terminal, LittleMemoryIsAnError) {
  if (kSanitized) GTEST_SKIP() << "sanitizers need address space";
  const ToolResult result = in_shell("ulimit -v 400000; exec \"$0\" \"$@\"",
                                     with_model({"-p", "hello", "-n", "4", "--ctx", "1000000"}));
  EXPECT_EQ(result.status, 9) << result.err;
  EXPECT_NE(result.err.find("cannot allocate"), std::string::npos) << result.err;
}

}  // namespace
}  // namespace minfer
