// What the nodes of a model's first steps yield, on a device or as read from a file.
//
// A file is a GGUF file of F32 and I32 tensors, so minfer-inspect lists it. For each step
// `step.N.tokens` and `step.N.past`; its tensors are called "N/INDEX/NAME", and "N/probe/INDEX" for
// a node's result on a probe (see probe_values).
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "minfer/node_runner.h"
#include "side.h"

namespace minfer::verify {

struct StepValues {
  std::vector<TokenId> tokens;
  uint32_t past = 0;
  TensorValues values;
  TensorValues probes;  ///< by node
};

/// Activations that 8-bit quantisation represents exactly: multiples of 1/128 between 64/128 and
/// 127/128 in size, one of 127/128 in every 32. A matrix product of them shows any wrong weight,
/// since no rounding of activations covers it. The same for the same node and size.
std::vector<uint8_t> probe_values(uint32_t node, size_t bytes);

/// Whether a node is a matrix product whose activation and result own their memory.
bool can_probe(const Graph& graph, uint32_t node);

/// The inputs of a probe of `node`.
TensorValues probe_inputs(const Graph& graph, uint32_t node);

/// Runs every node of a step by itself, each on what the nodes before it made.
Result<StepValues> run_step(Side& side, const std::vector<TokenId>& tokens, uint32_t past);

Result<void> write_steps(const std::filesystem::path& path, const Graph& graph,
                         const std::vector<StepValues>& steps, const std::string& made_by);
struct StepFile {
  std::string made_by;
  std::vector<StepValues> steps;
};
/// kBadModel where it is no such file.
Result<StepFile> read_steps(const std::filesystem::path& path);

}  // namespace minfer::verify
