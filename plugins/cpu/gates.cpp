// The gate table and its reading.
#include "gates.h"

#include <algorithm>

#include "abi_read.h"
#include "cpu_info.h"
#include "thread_pool.h"

namespace minfer_cpu {
namespace {

enum GateIndex : uint32_t { kIsa, kThreads, kFuse, kGates };

constexpr minfer_gate kTable[kGates] = {
    {sizeof(minfer_gate), MINFER_GATE_ENUM, MINFER_SCOPE_LOAD, 1, "MINFER_CPU_ISA",
     "Instruction level of the CPU kernels; auto takes the highest the processor has.", 0, 0, 4,
     "auto|scalar|avx2|avx512|avx512vnni"},
    {sizeof(minfer_gate), MINFER_GATE_INT, MINFER_SCOPE_LOAD, 0, "MINFER_CPU_THREADS",
     "Threads of the CPU device; 0 takes every core this process may use.", 0, 0, kMaxThreads,
     nullptr},
    {sizeof(minfer_gate), MINFER_GATE_BOOL, MINFER_SCOPE_PLAN, 1, "MINFER_CPU_FUSE",
     "Fuse neighbouring operators; off runs every node on its own, in the order of the graph.", 1,
     0, 1, nullptr},
};

int64_t value_of(const minfer_gate_values* values, GateIndex index) {
  const minfer_gate& gate = kTable[index];
  if (values == nullptr) return gate.default_value;
  const auto snapshot = read_struct<minfer_gate_values>(values, "gate values");
  if (snapshot.values == nullptr || index >= snapshot.n) return gate.default_value;
  const int64_t value = snapshot.values[index];
  if (value < gate.min_value || value > gate.max_value) {
    throw Failure(MINFER_INVALID, "cpu: gate %s is %lld, expected %lld to %lld", gate.name,
                  static_cast<long long>(value), static_cast<long long>(gate.min_value),
                  static_cast<long long>(gate.max_value));
  }
  return value;
}

}  // namespace

const minfer_gate* gate_table(uint32_t* n) {
  *n = kGates;
  return kTable;
}

Gates Gates::read(const minfer_gate_values* values) {
  Gates gates;
  const Isa best = detect_isa();
  const int64_t level = value_of(values, kIsa);
  gates.isa = level == 0 ? best : static_cast<Isa>(level - 1);
  if (gates.isa > best) {
    throw Failure(MINFER_UNSUPPORTED,
                  "cpu: gate MINFER_CPU_ISA asks for %s, but this processor and operating system "
                  "run %s at most",
                  isa_name(gates.isa), isa_name(best));
  }
  const int64_t threads = value_of(values, kThreads);
  gates.threads =
      threads == 0 ? std::min(allowed_cores(), kMaxThreads) : static_cast<unsigned>(threads);
  gates.fuse = value_of(values, kFuse) != 0;
  return gates;
}

}  // namespace minfer_cpu
