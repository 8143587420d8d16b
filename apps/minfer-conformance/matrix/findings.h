// What a running check says: the words in which cases and checks state what they expect.
//
// A check goes on after a failed expectation, so that one run shows all that is wrong. Where the
// words go is the driver's business: GoogleTest's failures (tests/ops) or a pipe to the parent
// (minfer-conformance). One listener per process; expectations may come from any thread, variants
// from one at a time.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <exception>
#include <string>
#include <type_traits>
#include <vector>

namespace conformance {

class Listener {
 public:
  virtual ~Listener() = default;
  /// A variant begins: one combination of type, shape and parameters. Empty when it is over.
  virtual void variant(const std::string&) {}
  /// An expectation did not hold.
  virtual void failed(const std::string& text) = 0;
  /// The device does not offer what the variant needs, in its own words.
  virtual void refused(const std::string& reason) = 0;
  /// A remark that is no fault.
  virtual void note(const std::string&) {}
  /// Something measured, e.g. "matmul q4_k 4096x4096 x 1", 12.5, "GB/s".
  virtual void figure(const std::string&, double, const std::string&) {}
};
/// `listener` must outlive all checks that run after the call.
void set_listener(Listener& listener);
Listener& listener();

/// Thrown where a device says that it does not do what is asked; no fault.
struct Refused : std::exception {
  explicit Refused(std::string text) : reason(std::move(text)) {}
  const char* what() const noexcept override { return reason.c_str(); }
  std::string reason;
};

/// Runs `body` as one variant: a refusal is counted, anything else thrown is a failure of this
/// variant alone, and failures within name it. Variants may nest.
void run_variant(const std::string& label, void (*call)(void*), void* body);
template <class Body>
void variant(const std::string& label, Body&& body) {
  using Plain = std::remove_reference_t<Body>;
  run_variant(
      label, [](void* b) { (*static_cast<Plain*>(b))(); }, &body);
}

/// Tells the listener, with the labels of the running variants before the text.
void fail(const std::string& text);

/// Each of these returns whether it held; `what` names the thing that is looked at.
bool expect(bool condition, const std::string& what);
bool expect_below(double value, double limit, const std::string& what = "relative error");
bool expect_at_least(double value, double limit, const std::string& what);

template <class T>
bool expect_equal(const T& value, const T& expected, const std::string& what = "result") {
  if (value == expected) return true;
  fail(fmt::format("{}: found {}, expected {}", what, value, expected));
  return false;
}

/// The first element that differs.
template <class T>
bool expect_equal(const std::vector<T>& values, const std::vector<T>& expected,
                  const std::string& what = "result") {
  if (values == expected) return true;
  if (values.size() != expected.size()) {
    fail(fmt::format("{}: {} values, expected {}", what, values.size(), expected.size()));
    return false;
  }
  size_t i = 0;
  while (values[i] == expected[i]) ++i;
  fail(fmt::format("{}: element {} is {}, expected {}", what, i, values[i], expected[i]));
  return false;
}

}  // namespace conformance
