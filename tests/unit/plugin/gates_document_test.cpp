// docs/gates.md is generated: each owner's section is what the registry says. With
// MINFER_UPDATE_DOCS=1 the sections of the plugins that were built are written anew; those of
// absent ones stay.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>

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

TEST(GatesDocument, IsWhatTheRegistrySays) {
  auto host =
      PluginHost::load({.files = {}, .search = true, .library_dir = MINFER_BINARY_DIR "/lib"});
  ASSERT_TRUE(host) << host.error().message();
  Sections generated = sections_of(gates_table((*host)->gates(), GateTableFormat::kMarkdown));
  // Plugins that a developer has installed are not ours to document.
  std::erase_if(generated, [](const auto& entry) {
    return entry.first != "core" && entry.first != "cpu" && entry.first != "cuda";
  });
  ASSERT_TRUE(generated.contains("core"));

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
    EXPECT_EQ(document[owner], section)
        << kDocument << " is behind; run this test with MINFER_UPDATE_DOCS=1";
}

}  // namespace
}  // namespace minfer
