#include "interrupt.h"

#include <csignal>

#include "terminal.h"

namespace minfer::run {
namespace {

sigset_t interrupt_set() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  return set;
}

/// Ends the process by the signal itself, which is what a shell that started it wants to see.
void end_process(const sigset_t& set) {
  app::clear_progress();
  signal(SIGINT, SIG_DFL);
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  raise(SIGINT);
}

}  // namespace

Interrupt::Interrupt() {
  const sigset_t set = interrupt_set();
  struct sigaction before {};
  sigaction(SIGINT, nullptr, &before);
  ignored_ = before.sa_handler == SIG_IGN;
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  thread_ = std::thread([this] { wait(); });
}

Interrupt::~Interrupt() {
  done_ = true;
  pthread_kill(thread_.native_handle(), SIGINT);
  thread_.join();
}

void Interrupt::on_request(std::function<void()> action) {
  std::lock_guard lock(mutex_);
  action_ = std::move(action);
}

void Interrupt::wait() {
  const sigset_t set = interrupt_set();
  constexpr timespec kPause{.tv_sec = 0, .tv_nsec = 20'000'000};
  while (true) {
    const int got = requested_ ? sigtimedwait(&set, nullptr, &kPause) : sigwaitinfo(&set, nullptr);
    if (done_) return;
    if (got == SIGINT && ignored_) continue;
    std::lock_guard lock(mutex_);
    if (got == SIGINT && (requested_.exchange(true) || !action_)) end_process(set);
    if (requested_ && action_) action_();
  }
}

}  // namespace minfer::run
