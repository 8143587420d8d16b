// Stop strings in streamed text.
#include <algorithm>

#include "minfer/sampler.h"

namespace minfer {

StopMatcher::StopMatcher(std::vector<std::string> stops) : stops_(std::move(stops)) {
  std::erase(stops_, std::string());
}

std::string StopMatcher::push(std::string_view text) {
  if (stopped()) return {};
  pending_ += text;
  size_t start = 0, end = std::string::npos;
  for (size_t i = 0; i < stops_.size(); ++i) {
    const size_t at = pending_.find(stops_[i]);
    if (at == std::string::npos) continue;
    const size_t after = at + stops_[i].size();
    if (after > end || (after == end && at >= start)) continue;
    start = at;
    end = after;
    matched_ = i;
  }
  const size_t length = stopped() ? start : pending_.size() - held_length();
  std::string out = pending_.substr(0, length);
  pending_.erase(0, stopped() ? pending_.size() : length);
  return out;
}

std::string StopMatcher::finish() {
  std::string out = std::move(pending_);
  pending_.clear();
  return out;
}

/// Length of the longest end of `pending_` that a stop string starts with.
size_t StopMatcher::held_length() const {
  size_t held = 0;
  for (const std::string& stop : stops_)
    for (size_t n = std::min(stop.size() - 1, pending_.size()); n > held; --n)
      if (std::string_view(pending_).ends_with(std::string_view(stop).substr(0, n))) held = n;
  return held;
}

}  // namespace minfer
