#include "kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <set>

namespace minfer::ab {
namespace {

using Names = std::set<std::string>;

std::vector<std::string> only_in(const Names& a, const Names& b) {
  std::vector<std::string> out;
  std::set_difference(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(out));
  return out;
}

/// An operator that a kernel must own up to: the label is the evidence.
bool is_heavy(const std::string& op) {
  return op == "MatMul" || op == "MatMulById" || op == "Attention";
}

bool has_label(const Names& names, const std::string& label) {
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    return name.find(label) != std::string::npos;
  });
}

}  // namespace

Result<KernelCheck> compare_kernels(Sides& sides, const Options& options) {
  KernelCheck out;
  std::array<Names, 2> names;
  std::set<std::string> devices;
  for (size_t side = 0; side < 2; ++side) {
    MINFER_TRY(sides.use(side));
    MINFER_ASSIGN(const auto kernels, sides.runner().trace());
    for (const OpTiming& k : kernels) {
      names[side].insert(fmt::format("{} {}", k.op, k.kernel));
      if (side == 1) devices.insert(k.device);
      if (k.kernel.empty() && is_heavy(k.op))
        out.refusal = fmt::format("{} does not say which kernel its {} ran on side {}", k.device,
                                  k.op, side == 0 ? 'A' : 'B');
    }
  }
  out.devices.assign(devices.begin(), devices.end());
  out.only_a = only_in(names[0], names[1]);
  out.only_b = only_in(names[1], names[0]);
  if (!out.refusal.empty()) return out;
  if (!options.label.empty() && !has_label(names[1], options.label))
    out.refusal = fmt::format(
        "no kernel of side B has '{}' in its label: the fast path did not run", options.label);
  else if (out.only_a.empty() && out.only_b.empty() && !options.allow_same_kernels)
    out.refusal = "both sides ran the same kernels; --same-kernels judges all the same";
  return out;
}

}  // namespace minfer::ab
