// Result and Error: how every fallible call in minfer reports failure.
//
// An Error says what went wrong, where (file, key, tensor, device), and what to do about it.
// Nothing in the library prints; apps print `Error::message()`. Plain values, safe to move between
// threads.
#pragma once

#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace minfer {

/// Kinds of failure. Each has a line in docs/errors.md and an exit status of its own.
enum class ErrorCode {
  kUsage = 2,        ///< wrong flags or arguments
  kConfig = 3,       ///< wrong YAML or gate value
  kNotFound = 4,     ///< a file, model, device or plugin that is not there
  kIo = 5,           ///< the operating system refused a read or write
  kBadModel = 6,     ///< a GGUF file that is damaged or contradicts itself
  kUnsupported = 7,  ///< valid, but this build or device cannot do it
  kPlugin = 8,       ///< a plugin was rejected or broke the contract
  kOutOfMemory = 9,  ///< host or device memory is not enough
  kDevice = 10,      ///< the device failed while running
  kContext = 11,     ///< the prompt or generation does not fit the context
  kTemplate = 12,    ///< a chat template failed to parse or to render
  kTokenizer = 13,   ///< tokenizer metadata is missing or wrong
  kCancelled = 14,   ///< stopped on request
  kInternal = 70,    ///< a broken invariant of ours
};

/// Short stable name of a code, e.g. "bad-model".
std::string_view error_code_name(ErrorCode code);

/// Process exit status that apps use for a code.
int exit_status(ErrorCode code);

/// One failure, in words for the person who has to mend it.
struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string what;   ///< what went wrong, with found and expected values
  std::string where;  ///< file, line, key, tensor or device; may be empty
  std::string hint;   ///< what to do; may be empty

  /// "where: what (hint)" on one line.
  std::string message() const;
};

template <class T>
using Result = tl::expected<T, Error>;

/// Shorthand for returning a failure from a function that returns Result<T>.
inline tl::unexpected<Error> fail(ErrorCode code, std::string what, std::string where = {},
                                  std::string hint = {}) {
  return tl::make_unexpected(Error{code, std::move(what), std::move(where), std::move(hint)});
}

}  // namespace minfer

#define MINFER_CONCAT_(a, b) a##b
#define MINFER_CONCAT(a, b) MINFER_CONCAT_(a, b)

/// Evaluates a Result<void> expression and returns its error from the enclosing function.
#define MINFER_TRY(expr)                                          \
  do {                                                            \
    if (auto minfer_try_ = (expr); !minfer_try_)                  \
      return tl::make_unexpected(std::move(minfer_try_).error()); \
  } while (false)

/// `MINFER_ASSIGN(auto x, expr)`: binds the value of a Result, or returns its error.
#define MINFER_ASSIGN(decl, expr) MINFER_ASSIGN_(decl, expr, MINFER_CONCAT(minfer_res_, __LINE__))
#define MINFER_ASSIGN_(decl, expr, tmp)                         \
  auto tmp = (expr);                                            \
  if (!tmp) return tl::make_unexpected(std::move(tmp).error()); \
  decl = std::move(*tmp)
