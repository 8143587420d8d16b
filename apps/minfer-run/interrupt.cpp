#include "interrupt.h"

#include <csignal>
#include <ctime>

namespace minfer::run {
namespace {

sigset_t interrupt_set() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  return set;
}

}  // namespace

Interrupt::Interrupt() {
  const sigset_t set = interrupt_set();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  thread_ = std::thread([this] { wait(); });
}

Interrupt::~Interrupt() {
  done_ = true;
  thread_.join();
}

void Interrupt::on_request(std::function<void()> action) {
  std::lock_guard lock(mutex_);
  action_ = std::move(action);
}

void Interrupt::wait() {
  const sigset_t set = interrupt_set();
  while (!done_) {
    timespec timeout{.tv_sec = 0, .tv_nsec = 50'000'000};
    if (sigtimedwait(&set, nullptr, &timeout) != SIGINT) continue;
    if (requested_.exchange(true)) {
      signal(SIGINT, SIG_DFL);
      pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
      raise(SIGINT);
    }
    std::lock_guard lock(mutex_);
    if (action_) action_();
  }
}

}  // namespace minfer::run
