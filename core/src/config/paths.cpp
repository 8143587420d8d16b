#include "config/paths.h"

#include <dlfcn.h>
#include <link.h>

namespace minfer {

std::filesystem::path library_dir() {
  Dl_info info = {};
  link_map* object = nullptr;
  if (::dladdr1(reinterpret_cast<const void*>(&library_dir), &info,
                reinterpret_cast<void**>(&object), RTLD_DL_LINKMAP) == 0 ||
      !object)
    return {};
  // The program itself has an empty name in the link map. (dladdr gives argv[0] for it, which may
  // be relative to a working directory that is no longer the current one.)
  std::error_code ec;
  const std::filesystem::path self =
      std::filesystem::canonical(*object->l_name ? object->l_name : "/proc/self/exe", ec);
  return ec ? std::filesystem::path() : self.parent_path();
}

}  // namespace minfer
