// What minfer-run writes besides text: help, lists, plans, graphs, logits.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "minfer/config.h"
#include "tiny_model.h"

namespace minfer {
namespace {

class Outputs : public TinyModel {
 protected:
  static boost::json::object json_of(const ToolResult& result) {
    EXPECT_EQ(result.status, 0) << result.err;
    boost::system::error_code failed;
    auto value = boost::json::parse(result.out, failed);
    EXPECT_FALSE(failed) << result.out;
    return value.is_object() ? value.get_object() : boost::json::object();
  }
  static boost::json::object gate(const ToolResult& result, std::string_view name) {
    const auto all = json_of(result);
    for (const auto& entry : all.at("gates").as_array())
      if (entry.at("name").as_string() == name) return entry.as_object();
    ADD_FAILURE() << "no gate " << name;
    return {};
  }
};

TEST_F(Outputs, HelpNamesEveryFlag) {
  const ToolResult result = run_tool(MINFER_RUN, {"--help"});
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.err, "");
  for (const char* flag : {"--config",
                           "--model",
                           "--prompt",
                           "--prompt-file",
                           "--system",
                           "--tokens",
                           "--ctx",
                           "--threads",
                           "--device",
                           "--plugin",
                           "--gpu-layers",
                           "--version",
                           "--temp",
                           "--top-k",
                           "--top-p",
                           "--min-p",
                           "--typical-p",
                           "--repeat-penalty",
                           "--repeat-last-n",
                           "--presence-penalty",
                           "--frequency-penalty",
                           "--logit-bias",
                           "--no-template",
                           "--seed",
                           "--json",
                           "--timing",
                           "--explain",
                           "--list-devices",
                           "--list-gates",
                           "--dry-run",
                           "--dump-graph",
                           "--dump-logits",
                           "--quiet",
                           "--verbose",
                           "--stop",
                           "--ignore-end",
                           "--cache-type",
                           "--batch",
                           "--gate"})
    EXPECT_NE(result.out.find(flag), std::string::npos) << flag;
  for (const char* letter : {"-n [", "-p [", "-m [", "-c [", "-t [", "-s [", "-q [", "-v ["})
    EXPECT_NE(result.out.find(letter), std::string::npos) << letter;
}

TEST_F(Outputs, HelpTellsTheDefaultsThatHold) {
  const std::string help = run_tool(MINFER_RUN, {"--help"}).out;
  const RunConfig config;
  const SamplerParams& s = config.sampling;
  // The line of each flag, and the default that its text must show.
  const auto says = [&](const std::string& flag, const std::string& value) {
    const size_t at = help.find(flag + " ");
    ASSERT_NE(at, std::string::npos) << flag;
    const size_t next = std::min(help.find("\n  -", at), help.find("\n\n", at));
    EXPECT_NE(help.substr(at, next - at).find("[" + value), std::string::npos)
        << flag << " should show " << value;
  };
  const auto number = [](auto value) {
    std::ostringstream text;
    text << value;
    return text.str();
  };
  says("--ctx", number(config.context));
  says("--tokens ]", number(config.max_tokens));
  says("--batch", number(config.batch));
  says("--threads ]", number(config.threads));
  says("--gpu-layers", number(config.gpu_layers));
  says("--temp", number(s.temperature));
  says("--top-k", number(s.top_k));
  says("--top-p", number(s.top_p));
  says("--min-p", number(s.min_p));
  says("--typical-p", number(s.typical_p));
  says("--repeat-penalty", number(s.repeat_penalty));
  says("--repeat-last-n", number(s.repeat_last_n));
  says("--presence-penalty", number(s.presence_penalty));
  says("--frequency-penalty", number(s.frequency_penalty));
}

TEST_F(Outputs, VersionIsOneLine) {
  const ToolResult result = run_tool(MINFER_RUN, {"--version"});
  EXPECT_EQ(result.status, 0);
  EXPECT_TRUE(result.out.starts_with("minfer "));
  EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 1);
}

TEST_F(Outputs, DevicesAreListedWithScoreAndFile) {
  const ToolResult text = run_tool(MINFER_RUN, {"--list-devices"});
  EXPECT_NE(text.out.find("cpu:0"), std::string::npos);
  EXPECT_NE(text.out.find("score "), std::string::npos);
  EXPECT_NE(text.out.find("libminfer_cpu.so"), std::string::npos);
  const auto json = json_of(run_tool(MINFER_RUN, {"--list-devices", "--json"}));
  const auto& devices = json.at("devices").as_array();
  EXPECT_TRUE(std::any_of(devices.begin(), devices.end(),
                          [](const auto& d) { return d.at("id").as_string() == "cpu:0"; }));
}

TEST_F(Outputs, RejectedFilesAreListedWithReason) {
  const std::string broken = folder().write("libbroken.so", "not a library");
  ::setenv("MINFER_PLUGIN_PATH", folder().path().c_str(), 1);
  const ToolResult text = run_tool(MINFER_RUN, {"--list-devices"});
  const auto json = json_of(run_tool(MINFER_RUN, {"--list-devices", "--json"}));
  ::unsetenv("MINFER_PLUGIN_PATH");
  std::filesystem::remove(broken);
  EXPECT_EQ(text.status, 0);
  EXPECT_NE(text.out.find("rejected   " + broken), std::string::npos) << text.out;
  EXPECT_EQ(json.at("rejected").as_array().at(0).at("path").as_string(), broken);
}

// The core looks for plugins beside itself; a copy of it stands alone.
TEST_F(Outputs, WithoutADeviceTheErrorSaysWhatWasFound) {
  namespace fs = std::filesystem;
  const fs::path moved = folder().path() / "moved";
  fs::create_directories(moved / "minfer/plugins");
  fs::copy_file(fs::path(MINFER_BINARY_DIR) / "lib/libminfer_core.so",
                moved / "libminfer_core.so.0");
  ::setenv("LD_LIBRARY_PATH", moved.c_str(), 1);
  const ToolResult bare = run_tool(MINFER_RUN, {"--model", model(), "--prompt", "a"});
  const fs::path open = moved / "minfer/plugins/libopen.so";
  std::ofstream(open) << "not a library";
  fs::permissions(open, fs::perms::all);
  const ToolResult rejected = run_tool(MINFER_RUN, {"--model", model(), "--prompt", "a"});
  ::unsetenv("LD_LIBRARY_PATH");
  EXPECT_NE(bare.status, 0);
  EXPECT_NE(bare.err.find("no usable device: no plugin was found"), std::string::npos) << bare.err;
  EXPECT_NE(rejected.err.find(open.string() + ": the file is writable by everyone"),
            std::string::npos)
      << rejected.err;
}

TEST_F(Outputs, GatesComeFromFlagOverEnvironmentOverConfig) {
  const std::string config =
      folder().write("gates.yaml", "gates: {cpu: {MINFER_CPU_THREADS: 3}}\n");
  const auto value = [&](const char* environment, std::vector<std::string> flags) {
    flags.insert(flags.end(), {"--list-gates", "--json", "--config", config});
    if (environment) ::setenv("MINFER_CPU_THREADS", environment, 1);
    const auto found = gate(run_tool(MINFER_RUN, flags), "MINFER_CPU_THREADS");
    ::unsetenv("MINFER_CPU_THREADS");
    return text_of(found, "value") + " " + text_of(found, "source");
  };
  EXPECT_EQ(value(nullptr, {}), "3 config");
  EXPECT_EQ(value("2", {}), "2 environment");
  EXPECT_EQ(value("2", {"--gate", "cpu:MINFER_CPU_THREADS=1"}), "1 command line");
  EXPECT_EQ(value("2", {"--gate", "MINFER_CPU_THREADS=1"}), "1 command line");
  EXPECT_EQ(value(nullptr, {"--threads", "4"}), "4 command line");
}

TEST_F(Outputs, GatesAreListedForPeople) {
  const ToolResult result = run_tool(MINFER_RUN, {"--list-gates"});
  EXPECT_NE(result.out.find("core:\n"), std::string::npos);
  EXPECT_NE(result.out.find("cpu:\n"), std::string::npos);
  EXPECT_NE(result.out.find("MINFER_CPU_ISA"), std::string::npos);
}

TEST_F(Outputs, DryRunPlansWhatTheRunThenHolds) {
  for (const std::vector<std::string>& setting :
       std::vector<std::vector<std::string>>{{},
                                             {"--ctx", "300"},
                                             {"--cache-type", "q8_0"},
                                             {"--batch", "32"},
                                             {"--gate", "MINFER_CPU_FUSE=off"},
                                             {"--gate", "MINFER_CPU_ISA=scalar"}}) {
    std::vector<std::string> dry = {"--dry-run"};
    dry.insert(dry.end(), setting.begin(), setting.end());
    const auto plan = run_json(dry);
    std::vector<std::string> real = {"-p", "hello", "-n", "4"};
    real.insert(real.end(), setting.begin(), setting.end());
    const auto run = run_json(real);
    const auto planned = plan.at("memory").at(0).at("total").to_number<double>();
    const auto held = run.at("memory").at(0).at("held").to_number<double>();
    EXPECT_GT(held, 1e6);
    EXPECT_NEAR(planned / held, 1, 0.01) << (setting.empty() ? "" : setting[1]);
  }
}

#if defined(MINFER_SIM)
TEST_F(Outputs, DevicesShareAModel) {
  const std::vector<std::string> greedy = {"--model", model(), "-p", "hello",    "--temp",
                                           "0",       "-n",    "8",  "--plugin", MINFER_SIM};
  const auto on = [&](std::vector<std::string> more) {
    more.insert(more.begin(), greedy.begin(), greedy.end());
    return run_tool(MINFER_RUN, more);
  };
  const ToolResult alone = on({"--device", "cpu"});
  const ToolResult both = on({"--device", "sim,cpu", "--gpu-layers", "1"});
  EXPECT_EQ(both.status, 0) << both.err;
  EXPECT_EQ(both.out, alone.out);
  EXPECT_NE(both.err.find("on sim:0 (layer 1, head), cpu:0 (embedding, layer 0), context"),
            std::string::npos)
      << both.err;
  EXPECT_NE(both.err.find("sim:0 does not take layer 0"), std::string::npos) << both.err;
  const auto plan =
      json_of(on({"--device", "sim,cpu", "--gpu-layers", "1", "--dry-run", "--json"}));
  EXPECT_EQ(plan.at("memory").as_array().size(), 2u);
  EXPECT_EQ(plan.at("units").at(0).at("device").as_string(), "cpu:0");
  EXPECT_NE(plan.at("units").at(1).at("passed_over").as_string(), "");
}
#endif

TEST_F(Outputs, DryRunReadsNoWeights) {
  // Cut within the tensor data: a plan needs metadata only, but a GGUF that is short is an error
  // before anything else, so the plan is made of a whole file whose data is a hole.
  const std::string path = folder() / "hole.gguf";
  std::filesystem::copy_file(model(), path);
  const auto size = std::filesystem::file_size(path);
  std::filesystem::resize_file(path, size - 1'000'000);
  std::filesystem::resize_file(path, size);
  const ToolResult result = run_tool(MINFER_RUN, {"--model", path, "--device", "cpu", "--dry-run"});
  EXPECT_EQ(result.status, 0) << result.err;
  for (const char* part : {"device", "weights", "KV", "arena", "workspace", "total", "cpu:0"})
    EXPECT_NE(result.out.find(part), std::string::npos) << part;
}

TEST_F(Outputs, ExplainGoesToStderrOfARunAndStdoutOfADryRun) {
  const ToolResult real = run({"-p", "hello", "-n", "2", "--explain"});
  const ToolResult dry = run({"--dry-run", "--explain"});
  for (const std::string* text : {&real.err, &dry.out})
    for (const char* part : {"units:", "layer 0 attention", "nodes of a step", "MatMul", "cpu:0"})
      EXPECT_NE(text->find(part), std::string::npos) << part << "\n" << *text;
  EXPECT_EQ(real.out.find("MatMul"), std::string::npos);
}

TEST_F(Outputs, ExplainFollowsGates) {
  const auto kernels = [&](const char* isa) {
    const auto plan =
        run_json({"--dry-run", "--explain", "--gate", std::string("cpu:MINFER_CPU_ISA=") + isa});
    std::string matmul;
    for (const auto& node : plan.at("nodes").as_array())
      if (node.at("op").as_string() == "MatMul") matmul = node.at("kernel").as_string();
    return matmul;
  };
  EXPECT_NE(kernels("scalar").find("scalar"), std::string::npos) << kernels("scalar");
}

TEST_F(Outputs, GraphIsDot) {
  const std::string path = folder() / "graph.dot";
  const ToolResult result = run({"--dry-run", "--dump-graph", path});
  EXPECT_EQ(result.status, 0) << result.err;
  const std::string dot = read_file(path);
  EXPECT_TRUE(dot.starts_with("digraph")) << dot.substr(0, 80);
  EXPECT_NE(dot.find("cpu:0"), std::string::npos);
  EXPECT_EQ(run({"-p", "x", "-n", "1", "--dump-graph", path}).status, 0);
  EXPECT_EQ(read_file(path), dot);
}

TEST_F(Outputs, LogitsAreThoseThatChooseTheFirstToken) {
  const std::string path = folder() / "logits.f32";
  const auto json =
      run_json({"-p", "hello", "-n", "1", "--temp", "0", "--ignore-end", "--dump-logits", path});
  const std::string bytes = read_file(path);
  ASSERT_EQ(bytes.size(), 320 * sizeof(float));
  std::vector<float> logits(320);
  std::memcpy(logits.data(), bytes.data(), bytes.size());
  const auto best = std::max_element(logits.begin(), logits.end()) - logits.begin();
  EXPECT_EQ(json.at("tokens").as_array().at(0).to_number<int64_t>(), best);
  EXPECT_GT(*std::max_element(logits.begin(), logits.end()), 0);
}

TEST_F(Outputs, AnOldDumpSurvivesARunThatFails) {
  const std::string path = folder().write("old.f32", "precious");
  EXPECT_NE(run({"-p", "hello", "--ctx", "2", "--dump-logits", path}).status, 0);
  EXPECT_EQ(read_file(path), "precious");
}

TEST_F(Outputs, ErrorsAreJsonOnRequest) {
  const ToolResult result = run({"-p", "hello", "--ctx", "3", "--json"});
  EXPECT_EQ(result.status, 11);
  EXPECT_EQ(result.out, "");
  const auto error = boost::json::parse(result.err).as_object();
  EXPECT_EQ(text_of(error, "code"), "context");
  EXPECT_EQ(number_of(error, "exit_status"), 11);
  EXPECT_NE(text_of(error, "message").find("the context holds 3"), std::string::npos);
  const ToolResult flag = run_tool(MINFER_RUN, {"--nope", "--json"});
  EXPECT_EQ(text_of(boost::json::parse(flag.err).as_object(), "code"), "usage");
}

}  // namespace
}  // namespace minfer
