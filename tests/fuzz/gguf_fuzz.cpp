// Fuzzes the GGUF parser: any bytes give a model or an error, within bounds. What it accepts is
// read.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <numeric>

#include "gguf/parser.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto parsed = minfer::parse_gguf(data, size, "fuzz.gguf", {});
  if (!parsed) {
    if (parsed.error().what.empty() || parsed.error().where.empty()) std::abort();
    return 0;
  }
  uint64_t sum = 0;
  for (const minfer::GgufTensor& tensor : parsed->tensors) {
    if (tensor.type == nullptr || tensor.bytes == 0) std::abort();
    sum += std::accumulate(data + tensor.offset, data + tensor.offset + tensor.bytes, uint64_t{0});
  }
  for (const auto& [key, value] : parsed->metadata) {
    if (const auto* texts = std::get_if<std::vector<std::string_view>>(&value.data)) {
      for (const std::string_view text : *texts) {
        sum += std::accumulate(text.begin(), text.end(), uint64_t{0});
      }
    }
  }
  [[maybe_unused]] static volatile uint64_t sink;
  sink = sum;
  return 0;
}
