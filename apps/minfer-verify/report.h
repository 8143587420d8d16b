// What minfer-verify prints: a table for people, or one JSON object.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "parity.h"
#include "sequences.h"

namespace minfer::verify {

struct Outcome {
  std::string model;
  std::string candidate;
  std::string reference;
  std::optional<Parity> parity;
  std::vector<RowsCheck> gates;
  bool holds() const;
};

std::string text(const Outcome& outcome);
std::string json_text(const Outcome& outcome);

}  // namespace minfer::verify
