// Where this build's own files lie.
#pragma once

#include <filesystem>

namespace minfer {

/// The folder of the library (or program) that this code was linked into; empty when unknown. Right
/// for a build tree, an installed tree and a moved one.
std::filesystem::path library_dir();

}  // namespace minfer
