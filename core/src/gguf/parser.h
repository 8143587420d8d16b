// Reads and validates one GGUF file in memory: the only code that touches unchecked file values.
//
// Every count and length is checked against the bytes that are left before anything is allocated or
// read, and all arithmetic is overflow-checked. Pure functions of their input, safe from any
// thread.
//
// Layout (little-endian, versions 2 and 3 alike; specification: ggml's docs/gguf.md):
//   "GGUF" | u32 version | u64 tensors | u64 keys
//   keys    x (string key | u32 kind | value)         string = u64 length + bytes
//   tensors x (string name | u32 dims | u64 ne[dims] | u32 type | u64 offset)
//   padding to `general.alignment` | tensor data, offsets counted from here
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "minfer/gguf.h"

namespace minfer {

/// Bounds on what a file may declare. Far above any real model; they keep memory and time bounded.
struct GgufLimits {
  static constexpr uint64_t kMaxKeys = 1u << 16;
  static constexpr uint64_t kMaxKeyBytes = 65535;  ///< the specification's own bound
  static constexpr uint64_t kMaxTensors = 1u << 18;
  static constexpr uint64_t kMaxTensorNameBytes = 255;
  static constexpr uint64_t kMaxArrayElements = 1u << 24;  ///< over all arrays of a file
  static constexpr uint64_t kMinAlignment = 8;             ///< F64 and I64 data stay aligned
  static constexpr uint64_t kMaxAlignment = 1u << 20;
  static constexpr uint64_t kDefaultAlignment = 32;
};

/// What one file holds. Views point into the bytes it was parsed from; tensor offsets count from
/// their start.
struct ParsedGguf {
  uint32_t version = 0;
  uint32_t alignment = 0;
  std::vector<std::pair<std::string, GgufValue>> metadata;
  std::vector<GgufTensor> tensors;
};

/// Parses the `size` bytes at `data`. `path` is for messages only.
Result<ParsedGguf> parse_gguf(const uint8_t* data, uint64_t size, const std::string& path,
                              const GgufFile::Options& options);

}  // namespace minfer
