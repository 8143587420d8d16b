#include "check.h"

#include <fmt/format.h>

#include <array>
#include <boost/json.hpp>
#include <cstring>
#include <optional>

#include "gguf/printable.h"
#include "text_util.h"

namespace minfer::inspect {
namespace {

enum class Fault { kNone, kNan, kInfinite };

/// How a number is stored.
enum class Format { kF16, kBf16, kF32, kF64, kE8m0, kUe4m3, kSplitF16 };

/// A number inside a block: its name, format and byte offset.
struct Field {
  std::string_view name;
  Format format;
  uint32_t offset;
};

template <class T>
T load(const uint8_t* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

/// The fault of an IEEE-like number given as bits: all exponent bits set.
template <class T>
Fault fault_of_bits(T bits, T exponent, T mantissa) {
  if ((bits & exponent) != exponent) return Fault::kNone;
  return (bits & mantissa) != 0 ? Fault::kNan : Fault::kInfinite;
}

Fault fault_of(Format format, const uint8_t* from) {
  switch (format) {
    case Format::kF16:
      return fault_of_bits<uint16_t>(load<uint16_t>(from), 0x7c00, 0x03ff);
    case Format::kBf16:
      return fault_of_bits<uint16_t>(load<uint16_t>(from), 0x7f80, 0x007f);
    case Format::kF32:
      return fault_of_bits<uint32_t>(load<uint32_t>(from), 0x7f800000, 0x007fffff);
    case Format::kF64:
      return fault_of_bits<uint64_t>(load<uint64_t>(from), 0x7ff0000000000000, 0x000fffffffffffff);
    case Format::kE8m0:  // a power of two; the one pattern that is not a number
      return *from == 0xff ? Fault::kNan : Fault::kNone;
    case Format::kUe4m3:  // no infinities; the sign bit is unused
      return (*from & 0x7f) == 0x7f ? Fault::kNan : Fault::kNone;
    case Format::kSplitF16: {  // IQ1_M: an f16 in the high nibbles of four words
      uint16_t bits = 0;
      for (int i = 0; i < 4; ++i) bits |= (load<uint16_t>(from + 2 * i) >> 12) << (4 * i);
      return fault_of_bits<uint16_t>(bits, 0x7c00, 0x03ff);
    }
  }
  return Fault::kNone;
}

/// The numbers in a block of `type` that must be finite; none for integer types.
std::vector<Field> fields_of(std::string_view type) {
  const Field d0{"d", Format::kF16, 0};
  if (type == "F32") return {{"value", Format::kF32, 0}};
  if (type == "F16") return {{"value", Format::kF16, 0}};
  if (type == "BF16") return {{"value", Format::kBf16, 0}};
  if (type == "F64") return {{"value", Format::kF64, 0}};
  if (type == "Q4_1" || type == "Q5_1") return {d0, {"m", Format::kF16, 2}};
  if (type == "Q8_1") return {d0, {"s", Format::kF16, 2}};
  if (type == "Q2_K") return {{"d", Format::kF16, 80}, {"dmin", Format::kF16, 82}};
  if (type == "Q3_K") return {{"d", Format::kF16, 108}};
  if (type == "Q4_K" || type == "Q5_K") return {d0, {"dmin", Format::kF16, 2}};
  if (type == "Q6_K") return {{"d", Format::kF16, 208}};
  if (type == "Q8_K") return {{"d", Format::kF32, 0}};
  if (type == "IQ1_M") return {{"d", Format::kSplitF16, 48}};
  if (type == "TQ1_0") return {{"d", Format::kF16, 52}};
  if (type == "TQ2_0") return {{"d", Format::kF16, 64}};
  if (type == "MXFP4") return {{"e", Format::kE8m0, 0}};
  if (type == "NVFP4") {
    return {{"d0", Format::kUe4m3, 0},
            {"d1", Format::kUe4m3, 1},
            {"d2", Format::kUe4m3, 2},
            {"d3", Format::kUe4m3, 3}};
  }
  if (type.substr(0, 1) == "I" && type.substr(0, 2) != "IQ") return {};
  return {d0};  // Q4_0, Q5_0, Q8_0, Q1_0 and the other IQ types
}

void check_tensor(const GgufTensor& tensor, const uint8_t* data, CheckReport& report) {
  const std::vector<Field> fields = fields_of(tensor.type->name);
  if (fields.empty()) {
    ++report.unchecked;
    return;
  }
  const uint64_t stride = tensor.type->block_bytes;
  const uint64_t blocks = tensor.bytes / stride;
  uint64_t bad = 0;
  for (uint64_t b = 0; b < blocks; ++b) {
    for (const Field& field : fields) {
      const Fault fault = fault_of(field.format, data + b * stride + field.offset);
      if (fault == Fault::kNone) continue;
      if (bad++ >= kFindingsPerTensor) continue;
      report.findings.push_back({tensor.name, tensor.type->name, tensor.type->block_elements > 1, b,
                                 field.name, fault == Fault::kNan});
    }
  }
  report.bad_numbers += bad;
  report.bad_tensors += bad > 0;
}

}  // namespace

CheckReport check_tensors(const GgufFile& file) {
  CheckReport report;
  for (const GgufTensor& tensor : file.tensors()) {
    check_tensor(tensor, file.data(tensor), report);
    file.release_pages(tensor);
    ++report.tensors;
    report.bytes += tensor.bytes;
  }
  return report;
}

std::string check_text(const CheckReport& report) {
  std::string out;
  for (const Finding& finding : report.findings) {
    out += fmt::format("tensor {} ({}): {} {}: {} is {}\n", printable(finding.tensor, 255),
                       finding.type, finding.is_block ? "block" : "element", finding.index,
                       finding.field, finding.is_nan ? "NaN" : "infinite");
  }
  if (report.bad_numbers > report.findings.size()) {
    out += fmt::format("... and {} more\n", report.bad_numbers - report.findings.size());
  }
  out += fmt::format("{} tensors, {} bytes read: {}\n", report.tensors, report.bytes,
                     report.ok() ? "all scales and values are finite"
                                 : fmt::format("{} numbers in {} tensors are NaN or infinite",
                                               report.bad_numbers, report.bad_tensors));
  return out;
}

boost::json::object check_json(const CheckReport& report) {
  boost::json::array findings;
  for (const Finding& finding : report.findings) {
    findings.push_back(boost::json::object{{"tensor", valid_utf8(finding.tensor)},
                                           {"type", finding.type},
                                           {finding.is_block ? "block" : "element", finding.index},
                                           {"field", finding.field},
                                           {"fault", finding.is_nan ? "nan" : "infinite"}});
  }
  return {{"ok", report.ok()},
          {"tensors", report.tensors},
          {"bytes", report.bytes},
          {"bad_tensors", report.bad_tensors},
          {"bad_numbers", report.bad_numbers},
          {"unchecked_tensors", report.unchecked},
          {"findings", std::move(findings)}};
}

}  // namespace minfer::inspect
