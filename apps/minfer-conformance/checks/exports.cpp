// What the file shows the dynamic loader: read from its ELF headers, without loading it.
//
// A plugin with more symbols than its entry may catch another library's calls, or have its own
// caught; one that needs libminfer cannot be loaded by another version of the core.
#include <elf.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>

#include "checks.h"

namespace conformance {
namespace {

/// A 64-bit little-endian ELF file whose tables may be nonsense: every access is within the file.
class ElfFile {
 public:
  explicit ElfFile(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    bytes_.assign(std::istreambuf_iterator<char>(file), {});
    const auto header = read<Elf64_Ehdr>(0);
    if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
        header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB)
      throw std::runtime_error("the file is no 64-bit little-endian ELF library");
    for (uint64_t i = 0; i < header.e_shnum; ++i)
      sections_.push_back(read<Elf64_Shdr>(header.e_shoff + i * header.e_shentsize));
  }

  /// Names that other libraries can bind to.
  std::vector<std::string> exports() const {
    std::vector<std::string> out;
    for_each<Elf64_Sym>(SHT_DYNSYM, [&](const Elf64_Sym& symbol, uint64_t names) {
      const bool is_visible = ELF64_ST_VISIBILITY(symbol.st_other) == STV_DEFAULT ||
                              ELF64_ST_VISIBILITY(symbol.st_other) == STV_PROTECTED;
      if (symbol.st_shndx == SHN_UNDEF || ELF64_ST_BIND(symbol.st_info) == STB_LOCAL || !is_visible)
        return;
      if (const std::string name = text(names + symbol.st_name); !name.empty()) out.push_back(name);
    });
    std::sort(out.begin(), out.end());
    return out;
  }

  /// Libraries that must be there before it can be loaded.
  std::vector<std::string> dependencies() const {
    std::vector<std::string> out;
    for_each<Elf64_Dyn>(SHT_DYNAMIC, [&](const Elf64_Dyn& entry, uint64_t names) {
      if (entry.d_tag == DT_NEEDED) out.push_back(text(names + entry.d_un.d_val));
    });
    return out;
  }

 private:
  template <class T>
  T read(uint64_t at) const {
    if (at > bytes_.size() || bytes_.size() - at < sizeof(T))
      throw std::runtime_error("a table lies beyond the end of the file");
    T value;
    std::memcpy(&value, bytes_.data() + at, sizeof value);
    return value;
  }

  std::string text(uint64_t at) const {
    if (at >= bytes_.size()) throw std::runtime_error("a name lies beyond the end of the file");
    return {bytes_.data() + at, strnlen(bytes_.data() + at, bytes_.size() - at)};
  }

  /// Calls `use` with each entry of a section and where the names that go with it begin.
  template <class T, class Use>
  void for_each(uint32_t type, Use use) const {
    for (const Elf64_Shdr& section : sections_) {
      if (section.sh_type != type || section.sh_link >= sections_.size()) continue;
      for (uint64_t i = 0; i < section.sh_size / sizeof(T); ++i)
        use(read<T>(section.sh_offset + i * sizeof(T)), sections_[section.sh_link].sh_offset);
    }
  }

  std::vector<char> bytes_;
  std::vector<Elf64_Shdr> sections_;
};

}  // namespace

void check_exports(const Target& target) {
  const ElfFile file(target.plugin);
  const std::vector<std::string> exports = file.exports();
  expect(exports == std::vector<std::string>{MINFER_QUERY_SYMBOL},
         fmt::format("exported are: {}; expected only " MINFER_QUERY_SYMBOL
                     " (compile with -fvisibility=hidden, link with a version script)",
                     exports.empty() ? "no symbols" : fmt::format("{}", fmt::join(exports, ", "))));
  const std::vector<std::string> needed = file.dependencies();
  for (const std::string& name : needed) {
    expect(name.rfind("libminfer", 0) != 0,
           fmt::format("needs {}: a plugin sees the core through its headers only", name));
  }
  if (!needed.empty()) listener().note(fmt::format("needs {}", fmt::join(needed, ", ")));
}

}  // namespace conformance
