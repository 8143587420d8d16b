#include "config/yaml_tree.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <istream>
#include <sstream>

namespace minfer {
namespace {

constexpr size_t kMaxBytes = size_t{1} << 20;
constexpr size_t kMaxDepth = 32;
constexpr size_t kMaxNodes = 20000;

/// Ends the parser from inside an event; caught in read_yaml, so it never leaves this file.
struct Refused {
  std::string what;
  YAML::Mark mark;
};

class TreeBuilder final : public YAML::EventHandler {
 public:
  YamlNode take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override {
    add(node(mark, YamlNode::Kind::kNull));
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    throw Refused{"aliases (*name) are not supported", mark};
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                const std::string& value) override {
    YamlNode scalar = node(mark, YamlNode::Kind::kScalar);
    scalar.text = value;
    scalar.quoted = tag == "!";
    if (tag != "!" && tag != "?" && !tag.empty())
      throw Refused{fmt::format("tags ({}) are not supported", tag.substr(0, 60)), mark};
    add(std::move(scalar));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {
    open(mark, YamlNode::Kind::kList);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {
    open(mark, YamlNode::Kind::kMap);
  }
  void OnMapEnd() override { close(); }

 private:
  struct Open {
    YamlNode node;
    YamlNode key;
    bool has_key = false;
    YAML::Mark mark;
  };

  YamlNode node(const YAML::Mark& mark, YamlNode::Kind kind) {
    if (++nodes_ > kMaxNodes)
      throw Refused{fmt::format("more than {} values; a config is small", kMaxNodes), mark};
    last_mark_ = mark;
    YamlNode out;
    out.kind = kind;
    out.line = mark.line + 1;
    out.column = mark.column + 1;
    return out;
  }
  void open(const YAML::Mark& mark, YamlNode::Kind kind) {
    if (open_.size() >= kMaxDepth)
      throw Refused{fmt::format("nested deeper than {} levels", kMaxDepth), mark};
    open_.push_back({node(mark, kind), {}, false, mark});
  }
  void close() {
    YamlNode done = std::move(open_.back().node);
    open_.pop_back();
    add(std::move(done));
  }
  void add(YamlNode value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return;
    }
    Open& parent = open_.back();
    if (parent.node.kind == YamlNode::Kind::kList) {
      parent.node.items.push_back(std::move(value));
    } else if (parent.has_key) {
      parent.node.keys.push_back(std::move(parent.key));
      parent.node.items.push_back(std::move(value));
      parent.has_key = false;
    } else {
      check_key(parent.node, value);
      parent.key = std::move(value);
      parent.has_key = true;
    }
  }
  void check_key(const YamlNode& map, const YamlNode& key) const {
    YAML::Mark mark = last_mark_;
    mark.line = key.line - 1;
    mark.column = key.column - 1;
    if (key.kind != YamlNode::Kind::kScalar)
      throw Refused{fmt::format("a key must be a name; found {}", describe(key)), mark};
    for (const YamlNode& other : map.keys)
      if (other.text == key.text)
        throw Refused{
            fmt::format("key '{}' is already given in line {}", key.text.substr(0, 60), other.line),
            mark};
  }

  YamlNode root_;
  std::vector<Open> open_;
  size_t nodes_ = 0;
  YAML::Mark last_mark_;
};

tl::unexpected<Error> error_at(const std::string& origin, const YAML::Mark& mark,
                               std::string what) {
  return fail(
      ErrorCode::kConfig, std::move(what),
      mark.line < 0 ? origin : fmt::format("{}:{}:{}", origin, mark.line + 1, mark.column + 1));
}

}  // namespace

Result<YamlNode> read_yaml(std::string_view text, const std::string& origin) {
  if (text.size() > kMaxBytes)
    return fail(ErrorCode::kConfig,
                fmt::format("{} bytes; a config has at most {}", text.size(), kMaxBytes), origin);
  if (text.find('\0') != std::string_view::npos)
    return fail(ErrorCode::kConfig, "holds a NUL byte; this is no YAML text", origin);
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    TreeBuilder builder;
    parser.HandleNextDocument(builder);
    TreeBuilder second;
    if (parser.HandleNextDocument(second))
      return fail(ErrorCode::kConfig, "holds more than one document", origin,
                  "remove what follows '---'");
    return builder.take();
  } catch (const Refused& refused) {
    return error_at(origin, refused.mark, refused.what);
  } catch (const YAML::Exception& e) {
    return error_at(origin, e.mark, fmt::format("not valid YAML: {}", e.msg));
  } catch (const std::exception& e) {
    return fail(ErrorCode::kConfig, fmt::format("not valid YAML: {}", e.what()), origin);
  }
}

std::string place_of(const YamlNode& node, const std::string& origin) {
  return fmt::format("{}:{}:{}", origin, node.line, node.column);
}

std::string describe(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::kNull:
      return "nothing";
    case YamlNode::Kind::kList:
      return "a list";
    case YamlNode::Kind::kMap:
      return "a group of keys";
    case YamlNode::Kind::kScalar:
      break;
  }
  if (node.text.size() <= 60) return fmt::format("'{}'", node.text);
  return fmt::format("'{}…' ({} bytes)", node.text.substr(0, 40), node.text.size());
}

}  // namespace minfer
