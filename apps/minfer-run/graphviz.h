// Drawing a graph with Graphviz's dot, where it is installed.
#pragma once

#include <filesystem>
#include <string>

#include "minfer/result.h"

namespace minfer::run {

/// Writes a graph given as DOT text: as SVG where the file's name ends in .svg, else as it is.
/// kNotFound when dot is needed and not there, kIo when it fails.
Result<void> write_graph(const std::filesystem::path& path, const std::string& dot);

}  // namespace minfer::run
