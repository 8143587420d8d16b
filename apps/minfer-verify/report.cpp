#include "report.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <map>
#include <tuple>

namespace minfer::verify {
namespace {

constexpr size_t kShownDifferences = 8;
constexpr size_t kShownDivergences = 4;

const char* name_of(Probe probe) {
  switch (probe) {
    case Probe::kValues:
      return "values";
    case Probe::kExact:
      return "probe";
    case Probe::kUnit:
      return "unit";
  }
  return "?";
}

/// A line of the parity table: nodes of one operator that run one kernel.
struct Group {
  size_t nodes = 0;
  size_t failed = 0;
  const Finding* worst = nullptr;  ///< by error over limit
};

double excess(const Finding& f) {
  if (f.error == 0) return 0;
  return f.limit > 0 ? f.error / f.limit : std::numeric_limits<double>::infinity();
}

std::string parity_table(const Parity& parity) {
  std::map<std::tuple<std::string, std::string, uint32_t, Probe>, Group> groups;
  for (const Finding& f : parity.findings) {
    const std::string kernel = f.probe == Probe::kUnit ? "" : f.kernel;
    Group& group = groups[{f.op, kernel, f.tokens, f.probe}];
    ++group.nodes;
    group.failed += f.holds() ? 0 : 1;
    if (!group.worst || excess(f) > excess(*group.worst)) group.worst = &f;
  }
  std::string out = fmt::format("  {:16} {:6} {:6} {:>5} {:>9} {:>9}  {:40} {}\n", "operator",
                                "given", "tokens", "nodes", "error", "limit", "kernel", "worst at");
  for (const auto& [key, group] : groups) {
    const auto& [op, kernel, tokens, probe] = key;
    out += fmt::format("  {:16} {:6} {:6} {:5} {:9.2g} {:9.2g}  {:40} {}{}\n", op, name_of(probe),
                       tokens, group.nodes, group.worst->error, group.worst->limit, kernel,
                       group.worst->node,
                       group.failed ? fmt::format("  {} DIFFER", group.failed) : "");
  }
  return out;
}

std::string finding_text(const Finding& f) {
  std::string out = fmt::format("{} ({}, {}", f.node, f.op, f.unit);
  if (!f.weight.empty()) out += ", " + f.weight;
  out +=
      fmt::format("): error {:.2g}, limit {:.2g}, step of {} tokens", f.error, f.limit, f.tokens);
  if (f.row >= 0) out += fmt::format(", row {}", f.row);
  if (!f.kernel.empty()) out += fmt::format(", kernel {}", f.kernel);
  return out;
}

std::string parity_text(const Parity& parity) {
  const Finding* first = parity.first_difference();
  const auto failed = std::count_if(parity.findings.begin(), parity.findings.end(),
                                    [](const Finding& f) { return !f.holds(); });
  std::string out =
      fmt::format("parity   {}  {} comparisons\n", first ? "FAIL" : "pass", parity.findings.size());
  out += parity_table(parity);
  if (!first) return out;
  out += "  first node that differs: " + finding_text(*first) + "\n";
  size_t shown = 0;
  for (const Finding& f : parity.findings)
    if (!f.holds() && &f != first && ++shown < kShownDifferences)
      out += "  also: " + finding_text(f) + "\n";
  if (static_cast<size_t>(failed) > kShownDifferences)
    out += fmt::format("  and {} more\n", static_cast<size_t>(failed) - kShownDifferences);
  return out;
}

std::string score_text(const RowsCheck& gate) {
  return fmt::format(
      "{:8} {}  {} tokens, mean log-probability {:.5f} against {:.5f}, difference {:.2g}, limit "
      "{:.2g}\n",
      gate.gate, gate.failure.empty() ? "pass" : "FAIL", gate.rows, gate.text->candidate,
      gate.text->reference, gate.worst_error, gate.limit);
}

std::string gate_text(const RowsCheck& gate) {
  if (gate.text) return score_text(gate);
  std::string out =
      fmt::format("{:8} {}  {} rows of logits, mean error {:.2g}, limit {:.2g}, worst {:.2g}",
                  gate.gate, gate.failure.empty() ? "pass" : "FAIL", gate.rows, gate.mean_error,
                  gate.limit, gate.worst_error);
  if (!gate.failure.empty()) out += ": " + gate.failure;
  out += "\n";
  size_t shown = 0;
  for (const Divergence& d : gate.divergences) {
    if (++shown > kShownDivergences) break;
    out += fmt::format(
        "  sequence {}, position {}: token {} instead of {}; gaps {:.3g} and {:.3g}{}\n",
        d.sequence, d.position, d.found, d.expected, d.gap, d.found_gap,
        d.near_tie ? ", a near-tie" : "");
  }
  return out;
}

/// JSON has no infinity.
double finite(double value) {
  return std::min(value, 1e300);
}

boost::json::object finding_json(const Finding& f) {
  return {{"node", f.node},     {"given", name_of(f.probe)}, {"operator", f.op},
          {"unit", f.unit},     {"weight", f.weight},        {"kernel", f.kernel},
          {"tokens", f.tokens}, {"error", finite(f.error)},  {"limit", f.limit},
          {"row", f.row},       {"holds", f.holds()}};
}

boost::json::object gate_json(const RowsCheck& gate) {
  boost::json::array divergences;
  for (const Divergence& d : gate.divergences)
    divergences.push_back({{"sequence", d.sequence},
                           {"position", d.position},
                           {"expected", d.expected},
                           {"found", d.found},
                           {"gap", d.gap},
                           {"found_gap", d.found_gap},
                           {"near_tie", d.near_tie}});
  boost::json::object out = {{"gate", gate.gate},
                             {"holds", gate.failure.empty()},
                             {"rows", gate.rows},
                             {"mean_error", finite(gate.mean_error)},
                             {"worst_error", finite(gate.worst_error)},
                             {"limit", gate.limit},
                             {"failure", gate.failure},
                             {"divergences", std::move(divergences)}};
  if (gate.text) {
    out["mean_log_probability"] = finite(gate.text->candidate);
    out["reference_mean_log_probability"] = finite(gate.text->reference);
  }
  return out;
}

}  // namespace

bool Outcome::holds() const {
  return (!parity || !parity->first_difference()) &&
         std::all_of(gates.begin(), gates.end(),
                     [](const RowsCheck& gate) { return gate.failure.empty(); });
}

std::string text(const Outcome& outcome) {
  std::string out =
      fmt::format("{} on {} against {}\n", outcome.model, outcome.candidate, outcome.reference);
  if (outcome.parity) out += parity_text(*outcome.parity);
  for (const RowsCheck& gate : outcome.gates) out += gate_text(gate);
  return out + (outcome.holds() ? "all gates hold\n" : "a gate does not hold\n");
}

std::string json_text(const Outcome& outcome) {
  boost::json::object root = {{"model", outcome.model},
                              {"candidate", outcome.candidate},
                              {"reference", outcome.reference},
                              {"holds", outcome.holds()}};
  boost::json::array gates;
  if (outcome.parity) {
    boost::json::array findings;
    for (const Finding& f : outcome.parity->findings) findings.push_back(finding_json(f));
    const Finding* first = outcome.parity->first_difference();
    gates.push_back({{"gate", "parity"},
                     {"holds", first == nullptr},
                     {"first_difference",
                      first ? boost::json::value(finding_json(*first)) : boost::json::value()},
                     {"comparisons", std::move(findings)}});
  }
  for (const RowsCheck& gate : outcome.gates) gates.push_back(gate_json(gate));
  root["gates"] = std::move(gates);
  return boost::json::serialize(root) + "\n";
}

}  // namespace minfer::verify
