// Reads all tensor data of a model and finds numbers that would poison every result.
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "minfer/gguf.h"

namespace minfer::inspect {

/// One bad number: an element of a plain tensor, or a scale of a block.
struct Finding {
  std::string tensor;
  std::string_view type;
  bool is_block = false;
  uint64_t index = 0;      ///< of the element or block within the tensor
  std::string_view field;  ///< "value", or the name of the scale, e.g. "dmin"
  bool is_nan = false;     ///< else infinite
};

struct CheckReport {
  uint64_t tensors = 0;
  uint64_t bytes = 0;
  uint64_t bad_tensors = 0;
  uint64_t bad_numbers = 0;
  uint64_t unchecked = 0;         ///< tensors of integer types, which have no bad values
  std::vector<Finding> findings;  ///< the first few of each tensor

  bool ok() const { return bad_numbers == 0; }
};

/// Findings kept per tensor; the counts include the others.
inline constexpr uint64_t kFindingsPerTensor = 8;

/// Reads every tensor once, front to back, and gives its pages back.
CheckReport check_tensors(const GgufFile& file);

std::string check_text(const CheckReport& report);
boost::json::object check_json(const CheckReport& report);

}  // namespace minfer::inspect
