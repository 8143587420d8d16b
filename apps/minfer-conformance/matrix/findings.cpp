// Labels of running variants, and the texts of expectations that did not hold.
#include "findings.h"

#include <mutex>

namespace conformance {
namespace {

Listener* g_listener = nullptr;

/// The running variants, outermost first; read by whichever thread finds a fault.
struct Labels {
  std::mutex mutex;
  std::vector<std::string> list;

  std::string joined() {
    const std::lock_guard lock(mutex);
    return fmt::format("{}", fmt::join(list, ", "));
  }
  void push(const std::string& label) {
    const std::lock_guard lock(mutex);
    list.push_back(label);
  }
  void pop() {
    const std::lock_guard lock(mutex);
    list.pop_back();
  }
};

Labels& labels() {
  static Labels value;
  return value;
}

}  // namespace

void set_listener(Listener& to) {
  g_listener = &to;
}

Listener& listener() {
  return *g_listener;
}

void fail(const std::string& text) {
  const std::string at = labels().joined();
  listener().failed(at.empty() ? text : at + ": " + text);
}

void run_variant(const std::string& label, void (*call)(void*), void* body) {
  labels().push(label);
  listener().variant(labels().joined());
  try {
    call(body);
  } catch (const Refused& refused) {
    listener().refused(refused.reason);
  } catch (const std::exception& error) {
    fail(error.what());
  }
  labels().pop();
  listener().variant(labels().joined());
}

bool expect(bool condition, const std::string& what) {
  if (!condition) fail(what);
  return condition;
}

bool expect_below(double value, double limit, const std::string& what) {
  if (value < limit) return true;
  fail(fmt::format("{}: found {:.3g}, expected less than {:.3g}", what, value, limit));
  return false;
}

bool expect_at_least(double value, double limit, const std::string& what) {
  if (value >= limit) return true;
  fail(fmt::format("{}: found {:.3g}, expected at least {:.3g}", what, value, limit));
  return false;
}

}  // namespace conformance
