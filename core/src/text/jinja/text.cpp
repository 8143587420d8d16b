#include "text/jinja/text.h"

#include <algorithm>

namespace minfer::jinja {

namespace {

std::vector<Run>::const_iterator run_of(const std::vector<Run>& runs, size_t position) {
  return std::upper_bound(runs.begin(), runs.end(), position,
                          [](size_t at, const Run& run) { return at < run.end; });
}

}  // namespace

Origin Text::origin_at(size_t position) const {
  if (runs_.size() == 1) return runs_.front().origin;
  return run_of(runs_, position)->origin;
}

Origin Text::overall_origin() const {
  const bool any_context = std::any_of(
      runs_.begin(), runs_.end(), [](const Run& run) { return run.origin == Origin::kContext; });
  return any_context ? Origin::kContext : Origin::kTemplate;
}

void Text::extend_run(Origin origin) {
  if (!runs_.empty() && runs_.back().origin == origin) {
    runs_.back().end = bytes_.size();
  } else {
    runs_.push_back({bytes_.size(), origin});
  }
}

void Text::append(std::string_view bytes, Origin origin) {
  if (bytes.empty()) return;
  bytes_.append(bytes);
  extend_run(origin);
}

void Text::append(const Text& other, size_t from, size_t to) {
  if (from >= to) return;
  for (auto run = run_of(other.runs_, from); from < to; ++run) {
    const size_t end = std::min(to, run->end);
    const Origin origin = run->origin;
    append(other.view().substr(from, end - from), origin);
    from = end;
  }
}

Text Text::substr(size_t from, size_t to) const {
  Text piece;
  piece.append(*this, from, to);
  return piece;
}

}  // namespace minfer::jinja
