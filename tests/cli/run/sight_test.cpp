// What minfer-run lets one see: traces, drawn graphs, times.
#include <sys/stat.h>

#include <cstdlib>
#include <map>
#include <set>

#include "man_page.h"
#include "tiny_model.h"

namespace minfer {
namespace {

class Sight : public TinyModel {};

/// Runs with another PATH.
class PathGuard {
 public:
  explicit PathGuard(const std::string& path) : before_(std::getenv("PATH")) {
    ::setenv("PATH", path.c_str(), 1);
  }
  ~PathGuard() { ::setenv("PATH", before_.c_str(), 1); }

 private:
  std::string before_;
};

TEST_F(Sight, TraceHasPlansStepsRunsAndNodes) {
  const std::string file = folder() / "trace.json";
  const ToolResult result = run({"--prompt", "hello", "-n", "4", "--trace", file});
  ASSERT_EQ(result.status, 0) << result.err;
  boost::system::error_code failed;
  const auto root = boost::json::parse(read_file(file), failed);
  ASSERT_FALSE(failed);
  std::map<std::string, int> spans;  // by category
  std::set<std::string> tracks;
  double run_seconds = 0, node_seconds = 0;
  for (const auto& event : root.at("traceEvents").as_array()) {
    if (event.at("ph").as_string() == "M") {
      if (event.at("name").as_string() == "thread_name")
        tracks.insert(std::string(event.at("args").at("name").as_string()));
      continue;
    }
    const std::string category(event.at("cat").as_string());
    const double duration = event.at("dur").to_number<double>();
    ++spans[category];
    EXPECT_GE(duration, 0);
    EXPECT_GE(event.at("ts").to_number<double>(), 0);
    if (category == "run") run_seconds += duration;
    if (category == "node") node_seconds += duration;
  }
  EXPECT_EQ(tracks, (std::set<std::string>{"host", "cpu:0"}));
  for (const char* category : {"plan", "load", "step", "run", "copy", "wait", "node"})
    EXPECT_GT(spans[category], 0) << category;
  EXPECT_EQ(spans["step"], spans["run"]) << "a step on one device is one run";
  EXPECT_GT(spans["node"], spans["run"]);
  EXPECT_GT(node_seconds, 0);
  EXPECT_LT(node_seconds, run_seconds * 10) << "units differ";
}

TEST_F(Sight, TraceNeedsARunAndAPlaceToWrite) {
  EXPECT_EQ(run({"--prompt", "a", "--dry-run", "--trace", folder() / "t.json"}).status, 2);
  EXPECT_EQ(run({"--prompt", "a", "--trace", ""}).status, 2);
  EXPECT_EQ(run({"--prompt", "a", "-n", "1", "--trace", "/does/not/exist/t.json"}).status, 5);
}

TEST_F(Sight, GraphIsDrawnByDot) {
  const WorkFolder bin;
  const std::string dot =
      bin.write("dot", "#!/bin/sh\n[ \"$1\" = -Tsvg ] && [ \"$2\" = -o ] && /bin/cat > \"$3\"\n");
  ::chmod(dot.c_str(), 0755);
  const std::string file = folder() / "graph.svg";
  {
    const PathGuard path(bin.path().string());
    const ToolResult drawn = run({"--dry-run", "--dump-graph", file});
    EXPECT_EQ(drawn.status, 0) << drawn.err;
  }
  EXPECT_TRUE(read_file(file).starts_with("digraph"));
  const WorkFolder empty;
  const PathGuard path(empty.path().string());
  const ToolResult missing = run({"--dry-run", "--dump-graph", file});
  EXPECT_EQ(missing.status, 4) << missing.err;
  EXPECT_NE(missing.err.find("graphviz"), std::string::npos);
}

TEST_F(Sight, TimesOfEveryPhase) {
  const ToolResult result = run({"--prompt", "hello", "-n", "8", "--timing"});
  for (const char* part : {"plan ", "load ", "prefill ", "decode ", "p50", "p90", "p99"})
    EXPECT_NE(result.err.find(part), std::string::npos) << part;
}

TEST_F(Sight, EveryFlagIsInTheManual) {
  EXPECT_EQ(flags_without_manual(MINFER_RUN), std::vector<std::string>());
}

}  // namespace
}  // namespace minfer
