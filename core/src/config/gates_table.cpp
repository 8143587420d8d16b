// Renders the gate registry for people: a plain listing for a terminal, Markdown for docs/gates.md.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "minfer/gates.h"

namespace minfer {
namespace {

std::string range_text(const GateSpec& spec, std::string_view separator) {
  switch (spec.type) {
    case GateType::kBool:
      return fmt::format("on{}off", separator);
    case GateType::kInt:
      return fmt::format("{}..{}", spec.min_value, spec.max_value);
    case GateType::kEnum:
      return fmt::format("{}", fmt::join(spec.choices, separator));
  }
  return {};
}

/// Text for a cell of a Markdown table, where '|' would end it.
std::string cell(std::string_view text) {
  std::string out;
  for (const char c : text) out += c == '|' ? std::string("\\|") : std::string(1, c);
  return out;
}

std::string default_text(const GateSpec& spec) {
  return Gate{.spec = spec, .value = spec.default_value, .source = GateSource::kDefault}
      .value_text();
}

std::string plain(const GateRegistry& registry) {
  size_t name_width = 0, value_width = 0;
  for (const Gate& gate : registry.all()) {
    name_width = std::max(name_width, gate.spec.name.size());
    value_width = std::max(value_width, gate.value_text().size());
  }
  std::string out, owner;
  for (const Gate& gate : registry.all()) {
    if (gate.spec.owner != owner) out += fmt::format("{}:\n", owner = gate.spec.owner);
    out +=
        fmt::format("  {:<{}} = {:<{}}  {:<12}  [{}; default {}; {}{}] {}\n", gate.spec.name,
                    name_width, gate.value_text(), value_width, name_of(gate.source),
                    range_text(gate.spec, "|"), default_text(gate.spec), name_of(gate.spec.scope),
                    gate.spec.affects_numerics ? ", affects numerics" : "", gate.spec.help);
  }
  return out;
}

std::string markdown(const GateRegistry& registry) {
  std::string out, owner;
  for (const Gate& gate : registry.all()) {
    if (gate.spec.owner != owner) {
      owner = gate.spec.owner;
      out += fmt::format(
          "{}## {}\n\n| gate | values | default | scope | numerics | what it does |\n"
          "|---|---|---|---|---|---|\n",
          out.empty() ? "" : "\n", owner);
    }
    out +=
        fmt::format("| `{}` | {} | {} | {} | {} | {} |\n", gate.spec.name,
                    range_text(gate.spec, ", "), default_text(gate.spec), name_of(gate.spec.scope),
                    gate.spec.affects_numerics ? "may differ" : "same", cell(gate.spec.help));
  }
  return out;
}

}  // namespace

std::string gates_table(const GateRegistry& registry, GateTableFormat format) {
  return format == GateTableFormat::kMarkdown ? markdown(registry) : plain(registry);
}

}  // namespace minfer
