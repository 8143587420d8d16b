// The table of ggml tensor types: number, name, block shape, and whether minfer computes with it.
//
// Types that ggml removed keep their numbers, so that a file that holds one is refused by name
// rather than as "unknown". Immutable, safe from any thread.
#include "gguf/types.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "minfer/gguf.h"

namespace minfer {
namespace {

constexpr bool kYes = true;
constexpr bool kNo = false;

constexpr std::array kTypes = {
    TypeInfo{0, "F32", 1, 4, kYes},          TypeInfo{1, "F16", 1, 2, kYes},
    TypeInfo{2, "Q4_0", 32, 18, kYes},       TypeInfo{3, "Q4_1", 32, 20, kYes},
    TypeInfo{4, "Q4_2", 16, 10, kNo},        TypeInfo{5, "Q4_3", 16, 12, kNo},
    TypeInfo{6, "Q5_0", 32, 22, kYes},       TypeInfo{7, "Q5_1", 32, 24, kYes},
    TypeInfo{8, "Q8_0", 32, 34, kYes},       TypeInfo{9, "Q8_1", 32, 36, kNo},
    TypeInfo{10, "Q2_K", 256, 84, kYes},     TypeInfo{11, "Q3_K", 256, 110, kYes},
    TypeInfo{12, "Q4_K", 256, 144, kYes},    TypeInfo{13, "Q5_K", 256, 176, kYes},
    TypeInfo{14, "Q6_K", 256, 210, kYes},    TypeInfo{15, "Q8_K", 256, 292, kNo},
    TypeInfo{16, "IQ2_XXS", 256, 66, kNo},   TypeInfo{17, "IQ2_XS", 256, 74, kNo},
    TypeInfo{18, "IQ3_XXS", 256, 98, kNo},   TypeInfo{19, "IQ1_S", 256, 50, kNo},
    TypeInfo{20, "IQ4_NL", 32, 18, kYes},    TypeInfo{21, "IQ3_S", 256, 110, kNo},
    TypeInfo{22, "IQ2_S", 256, 82, kNo},     TypeInfo{23, "IQ4_XS", 256, 136, kYes},
    TypeInfo{24, "I8", 1, 1, kNo},           TypeInfo{25, "I16", 1, 2, kNo},
    TypeInfo{26, "I32", 1, 4, kNo},          TypeInfo{27, "I64", 1, 8, kNo},
    TypeInfo{28, "F64", 1, 8, kNo},          TypeInfo{29, "IQ1_M", 256, 56, kNo},
    TypeInfo{30, "BF16", 1, 2, kYes},        TypeInfo{31, "Q4_0_4_4", 32, 18, kNo},
    TypeInfo{32, "Q4_0_4_8", 32, 18, kNo},   TypeInfo{33, "Q4_0_8_8", 32, 18, kNo},
    TypeInfo{34, "TQ1_0", 256, 54, kNo},     TypeInfo{35, "TQ2_0", 256, 66, kNo},
    TypeInfo{36, "IQ4_NL_4_4", 32, 18, kNo}, TypeInfo{37, "IQ4_NL_4_8", 32, 18, kNo},
    TypeInfo{38, "IQ4_NL_8_8", 32, 18, kNo}, TypeInfo{39, "MXFP4", 32, 17, kYes},
    TypeInfo{40, "NVFP4", 64, 36, kNo},      TypeInfo{41, "Q1_0", 128, 18, kNo},
};

constexpr bool ids_are_indices() {
  for (uint32_t i = 0; i < kTypes.size(); ++i) {
    if (kTypes[i].id != i) return false;
  }
  return true;
}
static_assert(ids_are_indices(), "find_type(id) indexes the table");

bool same_name(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) {
    return std::tolower(static_cast<unsigned char>(x)) ==
           std::tolower(static_cast<unsigned char>(y));
  });
}

}  // namespace

const TypeInfo* find_type(uint32_t id) {
  return id < kTypes.size() ? &kTypes[id] : nullptr;
}

const TypeInfo* find_type(std::string_view name) {
  for (const TypeInfo& type : kTypes) {
    if (same_name(type.name, name)) return &type;
  }
  return nullptr;
}

std::span<const TypeInfo> all_types() {
  return kTypes;
}

bool is_removed_type(uint32_t id) {
  return id == 4 || id == 5 || (id >= 31 && id <= 33) || (id >= 36 && id <= 38);
}

std::string removed_type_hint(uint32_t id) {
  if (id >= 31 && id <= 33)
    return "get the plain Q4_0 file of this model: it is repacked on loading";
  if (id >= 36 && id <= 38) return "get the plain IQ4_NL file of this model";
  return "the format was withdrawn in 2023; get a Q4_0 or Q4_K file of this model";
}

std::string supported_type_names() {
  std::string names;
  for (const TypeInfo& type : kTypes) {
    if (!type.supported) continue;
    if (!names.empty()) names += ", ";
    names += type.name;
  }
  return names;
}

}  // namespace minfer
