// minfer-synth: GGUF files with real shapes and random weights.
//
// The data is streamed, so memory stays at a few megabytes whatever the model's size.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "files.h"
#include "gguf/writer.h"
#include "metadata.h"
#include "options.h"
#include "random_blocks.h"
#include "tensor_plan.h"
#include "terminal.h"

namespace minfer::synth {
namespace {

constexpr size_t kPieceBytes = 4u << 20;

/// Each tensor has a generator of its own, so that it does not depend on what stands before it.
uint64_t tensor_seed(uint64_t seed, std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return seed ^ hash;
}

std::span<const uint8_t> bytes_of(const std::vector<float>& values) {
  return {reinterpret_cast<const uint8_t*>(values.data()), values.size() * sizeof(float)};
}

/// Llama 3.1's divisors of the RoPE frequencies: 1 for wavelengths below a quarter of the original
/// context of 8192, `factor` above the whole of it, and blended between (Meta, Llama 3.1 reference
/// code).
std::vector<float> rope_factors(const Shape& shape) {
  constexpr double kOriginalContext = 8192, kLow = 1, kHigh = 4;
  std::vector<float> factors;
  for (int64_t i = 0; i < shape.head_dim / 2; ++i) {
    const double exponent = 2.0 * static_cast<double>(i) / static_cast<double>(shape.head_dim);
    const double wavelength = 2 * std::numbers::pi * std::pow(shape.rope_base, exponent);
    const double blend =
        std::clamp((kOriginalContext / wavelength - kLow) / (kHigh - kLow), 0.0, 1.0);
    factors.push_back(static_cast<float>(1 / ((1 - blend) / shape.rope_factor + blend)));
  }
  return factors;
}

Result<void> write_matrix(GgufWriter& writer, const PlannedTensor& tensor, Random& random,
                          std::vector<uint8_t>& buffer) {
  uint64_t elements = 1;
  for (const int64_t extent : tensor.ne) elements *= static_cast<uint64_t>(extent);
  const float rms = 1 / std::sqrt(static_cast<float>(tensor.ne[0]));
  const uint64_t block = tensor.type->block_bytes;
  uint64_t left = elements / tensor.type->block_elements * block;
  while (left > 0) {
    const uint64_t piece = std::min<uint64_t>(left, kPieceBytes / block * block);
    fill_blocks(*tensor.type, rms, random, std::span(buffer).first(piece));
    MINFER_TRY(writer.write(std::span(buffer).first(piece)));
    left -= piece;
  }
  return {};
}

Result<void> write_tensor(GgufWriter& writer, const PlannedTensor& tensor, const Options& options,
                          std::vector<uint8_t>& buffer) {
  Random random(tensor_seed(options.seed, tensor.name));
  switch (tensor.fill) {
    case Fill::kRopeFactors:
      return writer.write(bytes_of(rope_factors(options.shape)));
    case Fill::kNorm: {
      std::vector<float> values(static_cast<size_t>(tensor.ne[0]));
      for (float& value : values) value = 1 + 0.1f * random.normal();
      return writer.write(bytes_of(values));
    }
    case Fill::kMatrix:
      return write_matrix(writer, tensor, random, buffer);
  }
  return {};
}

Result<std::string> generate(const Options& options) {
  GgufWriter writer;
  add_metadata(writer, options.shape, options.quant, options.vocabulary);
  const std::vector<PlannedTensor> tensors = plan_tensors(options.shape, options.quant);
  for (const PlannedTensor& tensor : tensors)
    writer.add_tensor(tensor.name, *tensor.type, tensor.ne);
  MINFER_TRY(writer.open(options.output));
  std::vector<uint8_t> buffer(kPieceBytes);
  for (const PlannedTensor& tensor : tensors) {
    MINFER_TRY(write_tensor(writer, tensor, options, buffer));
  }
  MINFER_TRY(writer.finish());
  return fmt::format("{}: {} tensors, {} bytes of weights\n", options.output, tensors.size(),
                     writer.data_bytes());
}

Result<int> run(int argc, char** argv) {
  MINFER_ASSIGN(const Options options, parse_options(argc, argv));
  if (options.text) return app::print(*options.text);
  MINFER_ASSIGN(const std::string text, generate(options));
  return app::print(text);
}

}  // namespace
}  // namespace minfer::synth

int main(int argc, char** argv) {
  return minfer::app::run_program("minfer-synth", argc, argv, minfer::synth::run);
}
