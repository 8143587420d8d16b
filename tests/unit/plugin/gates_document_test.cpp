// docs/gates.md is generated: each owner's section is what the registry says. With
// MINFER_UPDATE_DOCS=1 (scripts/gen-gates-doc) the sections are written anew.
//
// The CUDA plugin's table is plain C++ and compiled in here, so that its section is checked on
// machines without nvcc too.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <span>
#include <sstream>

#include "gates.h"  // of plugins/cuda/host
#include "minfer/plugin_host.h"

namespace minfer {
namespace {

constexpr const char* kDocument = MINFER_SOURCE_DIR "/docs/gates.md";

using Sections = std::map<std::string, std::string>;

/// "## owner" sections of a Markdown text; what comes before the first has the key "".
Sections sections_of(const std::string& text) {
  Sections sections;
  std::istringstream stream(text);
  std::string owner;
  for (std::string line; std::getline(stream, line);) {
    if (line.starts_with("## ")) owner = line.substr(3);
    sections[owner] += line + "\n";
  }
  for (auto& [name, section] : sections)
    while (section.ends_with("\n\n")) section.pop_back();
  return sections;
}

std::string read(const char* path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<GateSpec> cuda_gates() {
  std::vector<GateSpec> specs;
  const std::span table(minfer_cuda::gate_table(), static_cast<size_t>(minfer_cuda::Gate::kCount));
  for (const minfer_gate& gate : table) {
    GateSpec spec{.name = gate.name};
    spec.type = gate.type == MINFER_GATE_INT ? GateType::kInt : GateType::kBool;
    spec.scope = gate.scope == MINFER_SCOPE_LOAD   ? GateScope::kLoad
                 : gate.scope == MINFER_SCOPE_PLAN ? GateScope::kPlan
                                                   : GateScope::kRun;
    spec.affects_numerics = gate.affects_numerics != 0;
    spec.default_value = gate.default_value;
    spec.min_value = gate.min_value;
    spec.max_value = gate.max_value;
    spec.help = gate.help;
    EXPECT_NE(gate.type, static_cast<uint32_t>(MINFER_GATE_ENUM)) << "choices are not read here";
    specs.push_back(std::move(spec));
  }
  return specs;
}

TEST(GatesDocument, IsWhatTheRegistrySays) {
  auto host =
      PluginHost::load({.files = {}, .search = true, .library_dir = MINFER_BINARY_DIR "/lib"});
  ASSERT_TRUE(host) << host.error().message();
  GateRegistry& gates = (*host)->gates();
  const auto loaded = [&](const char* backend) {
    const auto plugins = (*host)->plugins();
    return std::any_of(plugins.begin(), plugins.end(),
                       [&](const PluginInfo& p) { return p.backend == backend; });
  };
  ASSERT_TRUE(loaded("cpu"));
  if (!loaded("cuda")) {
    const auto declared = gates.declare("cuda", cuda_gates());
    ASSERT_TRUE(declared) << declared.error().message();
  }
  Sections generated = sections_of(gates_table(gates, GateTableFormat::kMarkdown));
  // Plugins that a developer has installed are not ours to document.
  std::erase_if(generated, [](const auto& entry) {
    return entry.first != "core" && entry.first != "cpu" && entry.first != "cuda";
  });
  for (const char* owner : {"core", "cpu", "cuda"}) ASSERT_TRUE(generated.contains(owner)) << owner;

  Sections document = sections_of(read(kDocument));
  if (std::getenv("MINFER_UPDATE_DOCS")) {
    for (const auto& [owner, section] : generated) document[owner] = section;
    std::ofstream file(kDocument);
    std::string separator;
    for (const auto& [owner, section] : document) {
      file << separator << section;
      separator = "\n";
    }
  }
  for (const auto& [owner, section] : generated)
    EXPECT_EQ(document[owner], section) << kDocument << " is behind; run scripts/gen-gates-doc";
}

}  // namespace
}  // namespace minfer
