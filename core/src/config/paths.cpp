#include "config/paths.h"

#include <dlfcn.h>

namespace minfer {

std::filesystem::path library_dir() {
  Dl_info info = {};
  if (::dladdr(reinterpret_cast<const void*>(&library_dir), &info) == 0 || !info.dli_fname)
    return {};
  // A program without a path in its name was found by PATH, and dladdr repeats that name.
  std::error_code ec;
  const std::filesystem::path named(info.dli_fname);
  const std::filesystem::path self =
      std::filesystem::canonical(named.has_parent_path() ? named : "/proc/self/exe", ec);
  return ec ? std::filesystem::path() : self.parent_path();
}

}  // namespace minfer
