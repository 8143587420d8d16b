// Whether a test was built with a sanitizer that makes it slow and greedy for address space.
#pragma once

namespace minfer {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace minfer
