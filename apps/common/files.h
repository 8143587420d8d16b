// Reading what a user names, without an unbounded allocation, and writing what a program makes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "minfer/result.h"

namespace minfer::app {

/// The bytes of a file, pipe or device. kNotFound, kIo, or kUsage when there are more than
/// `max_bytes`.
Result<std::string> read_file(const std::filesystem::path& path, size_t max_bytes);
/// The bytes of standard input up to its end. kIo, or kUsage beyond `max_bytes`.
Result<std::string> read_standard_input(size_t max_bytes);

/// Writes a whole file. kIo with the system's reason.
Result<void> write_file(const std::filesystem::path& path, std::string_view bytes);
/// Fails with kIo when write_file() would; what the file holds stays. For outputs that come after
/// long work.
Result<void> check_writable(const std::filesystem::path& path);

/// Writes all of `text` to standard output; false when its reader has gone (a closed pipe), kIo on
/// any other failure. SIGPIPE must be ignored.
Result<bool> write_out(std::string_view text);

/// Writes text that is a program's whole product, and returns its exit status: 0, also when the
/// reader has gone.
Result<int> print(std::string_view text);

}  // namespace minfer::app
