#include "minfer/log.h"

#include <mutex>
#include <utility>

namespace minfer {
namespace {
std::mutex g_mutex;
LogSink g_sink;
}  // namespace

void set_log_sink(LogSink sink) {
  std::lock_guard lock(g_mutex);
  g_sink = std::move(sink);
}

void log(LogLevel level, std::string_view line) {
  std::lock_guard lock(g_mutex);
  if (g_sink) g_sink(level, line);
}

}  // namespace minfer
