// YAML as a small tree with the place of every node.
//
// Built from yaml-cpp's events rather than its nodes, because those accept duplicate keys silently,
// and so that size, depth and number of nodes are bounded while reading. Pure; safe from any
// thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "minfer/result.h"

namespace minfer {

struct YamlNode {
  enum class Kind { kNull, kScalar, kList, kMap };

  Kind kind = Kind::kNull;
  std::string text;               ///< of a scalar
  bool quoted = false;            ///< a scalar that is text whatever it looks like
  int line = 0;                   ///< from 1
  int column = 0;                 ///< from 1
  std::vector<YamlNode> items{};  ///< of a list; of a map, the values
  std::vector<YamlNode> keys{};   ///< of a map: unique scalars, keys[i] of items[i]
};

/// Reads one document. Fails with kConfig at "origin:line:column" on broken YAML, duplicate keys,
/// keys that are no scalars, aliases, and on more than 1 MiB, 32 levels or 20,000 nodes. Empty text
/// is a null node.
Result<YamlNode> read_yaml(std::string_view text, const std::string& origin);

/// "origin:line:column" of a node.
std::string place_of(const YamlNode& node, const std::string& origin);

/// What a person calls the node: "a list", "nothing", "'text'" (cut when long).
std::string describe(const YamlNode& node);

}  // namespace minfer
