// Reads a recorded golden file beside the tests.
#pragma once

#include <boost/json.hpp>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>

namespace minfer::testing {

inline boost::json::value read_golden(const std::string& name) {
  const std::string path = std::string(MINFER_SOURCE_DIR "/tests/golden/") + name;
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error("cannot read " + path);
  return boost::json::parse(std::string(std::istreambuf_iterator<char>(in), {}));
}

}  // namespace minfer::testing
