// The instruction levels that the CPU plugin's gate MINFER_CPU_ISA can force.
#pragma once

namespace conformance {

inline constexpr const char* kLevels[] = {"auto", "scalar", "avx2", "avx512"};

}  // namespace conformance
