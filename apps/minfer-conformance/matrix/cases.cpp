// The list of all cases.
#include "cases.h"

namespace conformance {

std::vector<Case> all_cases() {
  std::vector<Case> all;
  for (const auto part : {elementwise_cases(), row_cases(), matmul_cases(), rope_cases(),
                          attention_cases(), plan_cases()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

}  // namespace conformance
