#include <boost/json.hpp>
#include <cmath>

#include "gguf/kind_names.h"
#include "listing.h"
#include "text_util.h"

namespace minfer::inspect {
namespace {

namespace json = boost::json;

json::value to_json(std::string_view text) {
  return json::string(valid_utf8(text));
}
json::value to_json(bool flag) {
  return flag;
}
json::value to_json(uint64_t number) {
  return number;
}
json::value to_json(int64_t number) {
  return number;
}
json::value to_json(double number) {
  if (!std::isfinite(number)) return nullptr;
  return number;
}

json::value to_json(const GgufValue& value) {
  return std::visit(
      [](const auto& data) -> json::value {
        using T = std::decay_t<decltype(data)>;
        if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string_view>) {
          return to_json(data);
        } else {
          json::array items;
          items.reserve(data.size());
          for (const auto& item : data) items.push_back(to_json(item));
          return items;
        }
      },
      value.data);
}

json::object tensor_json(const GgufTensor& tensor) {
  json::array shape(tensor.ne, tensor.ne + tensor.n_dims);
  return {{"name", valid_utf8(tensor.name)},
          {"type", tensor.type->name},
          {"supported", tensor.type->supported},
          {"shape", std::move(shape)},
          {"bytes", tensor.bytes},
          {"file", tensor.file},
          {"offset", tensor.offset}};
}

}  // namespace

json::object json_listing(const GgufFile& file) {
  json::array files;
  for (const GgufMapping& mapping : file.mappings()) {
    files.push_back(
        json::object{{"path", valid_utf8(mapping.path.string())}, {"bytes", mapping.bytes}});
  }
  json::object metadata;
  for (const auto& [key, value] : file.metadata()) {
    json::object entry{{"kind", gguf_kind_name(value.kind)}};
    if (value.kind == GgufKind::kArray) entry["element"] = gguf_kind_name(value.element);
    entry["value"] = to_json(value);
    metadata[valid_utf8(key)] = std::move(entry);
  }
  json::array tensors;
  for (const GgufTensor& tensor : file.tensors()) tensors.push_back(tensor_json(tensor));
  return {{"files", std::move(files)},
          {"version", file.version()},
          {"alignment", file.alignment()},
          {"metadata", std::move(metadata)},
          {"tensors", std::move(tensors)}};
}

}  // namespace minfer::inspect
