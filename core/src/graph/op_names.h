// Names of operators for reports and pictures.
#pragma once

#include <cstdint>
#include <string_view>

namespace minfer {

/// "MatMul" for MINFER_OP_MATMUL; "?" for a number that is not known.
std::string_view op_name(uint32_t op);

}  // namespace minfer
