// The tensors of a synthetic model: names, shapes and types as converters write them. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "minfer/gguf.h"
#include "minfer/result.h"
#include "presets.h"

namespace minfer::synth {

/// What a tensor's numbers should look like.
enum class Fill {
  kMatrix,       ///< mean 0, root mean square 1 / sqrt(row length)
  kNorm,         ///< around 1
  kRopeFactors,  ///< Llama 3.1's frequency factors, which are not random
};

struct PlannedTensor {
  std::string name;
  const TypeInfo* type;
  std::vector<int64_t> ne;  ///< innermost first
  Fill fill = Fill::kMatrix;
};

/// A quantisation by the name that file names carry: a type for all matrices (q8_0, bf16, ...) or a
/// mix of types by role (q4_k_m, q5_k_m).
class Quant {
 public:
  /// Fails with kUsage and the known names.
  static Result<Quant> parse(std::string_view name);
  /// Every name that `parse` takes, "f32, f16, ...".
  static std::string known_names();

  const std::string& name() const { return name_; }
  /// `general.file_type` as llama.cpp numbers it.
  uint32_t file_type() const { return file_type_; }
  /// Type of the matrix `role` (e.g. "ffn_down") of a layer (-1: outside layers) with rows of `row`
  /// elements. Rows that the wanted type's blocks do not divide get q8_0, or f16.
  const TypeInfo& type_of(std::string_view role, int64_t layer, int64_t n_layer, int64_t row) const;

 private:
  std::string name_;
  const TypeInfo* main_ = nullptr;
  const TypeInfo* more_ = nullptr;  ///< of the output, and of some value and down projections
  uint32_t file_type_ = 0;
};

/// All tensors of the model in file order.
std::vector<PlannedTensor> plan_tensors(const Shape& shape, const Quant& quant);

}  // namespace minfer::synth
