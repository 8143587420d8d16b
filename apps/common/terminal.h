// What an app says on stderr: log lines, errors, and progress while weights load.
//
// Lines may come from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "minfer/log.h"
#include "minfer/result.h"

namespace minfer::app {

/// The body of main(): runs `command` and returns its status, or reports its error (as JSON where
/// "--json" stands on the command line). A closed pipe becomes an error of the write; a standard
/// stream that the process was started without cannot be taken by a file that is opened later; what
/// is thrown is reported too.
int run_program(const char* name, int argc, char** argv, Result<int> (*command)(int, char**));

/// Writes to stderr; a failure has nowhere to be told.
void say(std::string_view text);

/// Sends log lines of at least `level` to stderr as "program: line".
void log_to_stderr(std::string_view program, LogLevel level);

/// Prints "program: error: message", or with `json` an object of code, message and exit_status, and
/// returns the code's exit status.
int report(std::string_view program, const Error& error, bool json = false);

/// A callback that draws "loading weights 42 %" while stderr is a terminal, else an empty function.
std::function<void(uint64_t done, uint64_t total)> progress_line(bool quiet);

/// Wipes a progress line that is on the screen, so that something else can be printed.
void clear_progress();

/// Number with a unit: "1.50 GiB", "312 MiB".
std::string bytes_text(uint64_t bytes);

}  // namespace minfer::app
