// minfer-doctor: what it finds, and that it says what is wrong.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <boost/json.hpp>
#include <cstdlib>
#include <string>

#include "man_page.h"
#include "run_tool.h"

namespace minfer {
namespace {

boost::json::object parsed(const std::string& text) {
  boost::system::error_code failed;
  const auto value = boost::json::parse(text, failed);
  EXPECT_FALSE(failed) << text;
  return value.is_object() ? value.get_object() : boost::json::object();
}

bool complains_of(const boost::json::object& report, std::string_view part) {
  for (const auto& complaint : report.at("complaints").as_array())
    if (std::string(complaint.as_string()).find(part) != std::string::npos) return true;
  return false;
}

TEST(Doctor, ReportsBuildMachineDevicesAndGates) {
  const ToolResult result = run_tool(MINFER_DOCTOR, {"--json"});
  const auto report = parsed(result.out);
  for (const char* key : {"build", "system", "processor", "memory", "limits", "NVIDIA driver",
                          "devices", "plugins", "rejected", "gates", "complaints"})
    EXPECT_TRUE(report.contains(key)) << key;
  EXPECT_EQ(result.status, report.at("complaints").as_array().empty() ? 0 : 1);
  bool cpu = false;
  for (const auto& device : report.at("devices").as_array())
    cpu |= device.at("id").as_string() == "cpu:0";
  EXPECT_TRUE(cpu);
  const ToolResult text = run_tool(MINFER_DOCTOR, {});
  EXPECT_NE(text.out.find("plugin ABI"), std::string::npos);
  EXPECT_NE(text.out.find("cpu:0"), std::string::npos);
}

TEST(Doctor, RejectedPluginsAndUnknownVariablesAreComplaints) {
  const WorkFolder folder;
  const std::string file = folder.write("libminfer_nonsense.so", "not a library");
  ::chmod(file.c_str(), 0644);
  ::setenv("MINFER_PLUGIN_PATH", folder.path().c_str(), 1);
  ::setenv("MINFER_CPU_ISSA", "avx2", 1);
  const ToolResult result = run_tool(MINFER_DOCTOR, {"--json"});
  ::unsetenv("MINFER_PLUGIN_PATH");
  ::unsetenv("MINFER_CPU_ISSA");
  EXPECT_EQ(result.status, 1);
  const auto report = parsed(result.out);
  EXPECT_TRUE(complains_of(report, "libminfer_nonsense.so")) << result.out;
  EXPECT_TRUE(complains_of(report, "MINFER_CPU_ISSA"));
}

TEST(Doctor, GatesInForceAreShownWithTheirSource) {
  ::setenv("MINFER_CPU_ISA", "scalar", 1);
  const ToolResult result = run_tool(MINFER_DOCTOR, {});
  ::unsetenv("MINFER_CPU_ISA");
  EXPECT_NE(result.out.find("MINFER_CPU_ISA = scalar (from the environment)"), std::string::npos)
      << result.out;
}

TEST(Doctor, WrongPluginIsReportedWithTheRest) {
  const ToolResult result = run_tool(MINFER_DOCTOR, {"--plugin", "/does/not/exist.so"});
  EXPECT_EQ(result.status, 1);
  EXPECT_NE(result.out.find("/does/not/exist.so"), std::string::npos);
  EXPECT_NE(result.out.find("processor"), std::string::npos);
  EXPECT_EQ(run_tool(MINFER_DOCTOR, {"--nonsense"}).status, 2);
}

TEST(Doctor, EveryFlagIsInTheManual) {
  EXPECT_EQ(flags_without_manual(MINFER_DOCTOR), std::vector<std::string>());
}

}  // namespace
}  // namespace minfer
