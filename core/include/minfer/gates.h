// Gates: named switches of the core and of plugins, in one registry.
//
// Declared before plugins are opened, resolved once (flags of a program over environment over YAML
// over default), immutable afterwards. Not thread-safe while being filled; read-only access is.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "minfer/result.h"

namespace minfer {

enum class GateType { kBool, kInt, kEnum };
enum class GateScope { kLoad, kPlan, kRun };
enum class GateSource { kDefault, kConfig, kEnvironment, kFlag };

const char* name_of(GateScope scope);    ///< "load", "plan", "run"
const char* name_of(GateSource source);  ///< "default", "config", "environment", "command line"

struct GateSpec {
  std::string name;     ///< MINFER_...
  std::string owner{};  ///< "core" or a backend's name
  GateType type = GateType::kBool;
  GateScope scope = GateScope::kPlan;
  bool affects_numerics = false;
  int64_t default_value = 0;  ///< enum: index into choices
  int64_t min_value = 0;
  int64_t max_value = 1;
  std::vector<std::string> choices{};  ///< of an enum
  std::string help{};
};

/// A gate with its resolved value.
struct Gate {
  GateSpec spec;
  int64_t value = 0;
  GateSource source = GateSource::kDefault;
  std::string value_text() const;  ///< "on", "42", "avx2"
};

/// Gates as a config gives them: owner -> (name -> text). The text is parsed against the spec.
using GateTexts = std::map<std::string, std::map<std::string, std::string>>;

class GateRegistry {
 public:
  /// Declares the gates of one owner. Fails on a name that is already taken by another owner.
  Result<void> declare(std::string_view owner, std::vector<GateSpec> specs);

  /// Applies config texts and the environment. An owner that is not declared gives one log line; an
  /// unknown name under a declared owner, or a bad value, is kConfig with the nearest known name.
  /// `locations` has the shape of `config` and says where each text stands ("a.yaml:12:5"), for
  /// errors.
  Result<void> resolve(const GateTexts& config, const GateTexts& locations = {});

  /// Changes one gate afterwards (flags, tools that compare settings). `text` is parsed like a
  /// config's.
  Result<void> set(std::string_view name, std::string_view text, GateSource source);

  std::span<const Gate> all() const { return gates_; }
  const Gate* find(std::string_view name) const;
  /// Values of one owner in the order it declared them (what crosses the ABI).
  std::vector<int64_t> values(std::string_view owner) const;
  /// Value of a gate that must exist.
  int64_t value(std::string_view name) const;

 private:
  void assign(const Gate& gate, int64_t value, GateSource source);

  std::vector<std::string> owners_;  ///< everyone who declared, with or without gates
  std::vector<Gate> gates_;
};

enum class GateTableFormat { kPlain, kMarkdown };

/// The registry as text: kPlain for a terminal (value and source of each gate), kMarkdown for
/// docs/gates.md (no values, so that the file does not depend on who made it).
std::string gates_table(const GateRegistry& registry, GateTableFormat format);

/// The core's own gates (owner "core").
std::vector<GateSpec> core_gates();

}  // namespace minfer
