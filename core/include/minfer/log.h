// Logging: one process-wide sink that apps install. The library never writes to stdout or stderr.
// Thread-safe: the sink may be called from any thread; set_log_sink belongs at start-up.
#pragma once

#include <functional>
#include <string_view>

namespace minfer {

enum class LogLevel { kDebug = 0, kInfo = 1, kWarn = 2, kError = 3 };

using LogSink = std::function<void(LogLevel, std::string_view)>;

/// Installs the receiver of log lines (none at first: lines are dropped).
void set_log_sink(LogSink sink);

/// Sends one line (without a newline) to the sink.
void log(LogLevel level, std::string_view line);

}  // namespace minfer
