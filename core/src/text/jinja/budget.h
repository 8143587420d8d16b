// Budget and Charge: how much memory and work one rendering may use.
//
// Every string and container that a template makes carries a Charge, which gives its bytes back
// when the value dies, so the limit is on what is held at once. One rendering, one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>

namespace minfer::jinja {

/// How the engine reports any failure inside; turned into an Error at the public boundary.
class Failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

[[noreturn]] inline void fail_template(const std::string& what) {
  throw Failure(what);
}

class Budget {
 public:
  Budget(uint64_t max_steps, uint64_t max_bytes) : max_steps_(max_steps), max_bytes_(max_bytes) {}
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;

  /// Counts work; throws when the steps are used up.
  void work(uint64_t steps = 1) {
    steps_ += steps;
    if (steps_ > max_steps_ || steps > max_steps_) {
      fail_template("rendering takes more than " + std::to_string(max_steps_) + " steps");
    }
  }

  /// Throws when `bytes` more than what is held now would break the limit.
  void need_room(uint64_t bytes) const {
    if (bytes > max_bytes_ || held_ > max_bytes_ - bytes) {
      fail_template("rendering needs more than " + std::to_string(max_bytes_) + " bytes of text");
    }
  }

 private:
  friend class Charge;
  uint64_t max_steps_, max_bytes_;
  uint64_t steps_ = 0, held_ = 0;
};

/// Bytes held against a budget for as long as this lives. Empty for literals of the template.
class Charge {
 public:
  Charge() = default;
  Charge(const Charge&) = delete;
  Charge& operator=(const Charge&) = delete;
  ~Charge() { release(); }

  /// Takes `bytes` more from a budget, always the same one; throws when it does not have them.
  void take(Budget& budget, uint64_t bytes) {
    budget.need_room(bytes);
    budget_ = &budget;
    bytes_ += bytes;
    budget.held_ += bytes;
  }

  void release() {
    if (budget_ != nullptr) budget_->held_ -= bytes_;
    bytes_ = 0;
  }

 private:
  Budget* budget_ = nullptr;
  uint64_t bytes_ = 0;
};

}  // namespace minfer::jinja
