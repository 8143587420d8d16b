// How the CPU plugin reports errors inside itself, and the one place where they become statuses.
//
// Code below the boundary throws Failure with a status and a text for people; `guarded` wraps every
// function of the plugin table, so that no exception crosses the C ABI. Thread-safe.
#pragma once

#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>

#include "minfer/plugin_abi.h"

namespace minfer_cpu {

class Failure : public std::exception {
 public:
  [[gnu::format(printf, 3, 4)]] Failure(minfer_status status, const char* format, ...)
      : status_(status) {
    va_list args;
    va_start(args, format);
    std::vsnprintf(text_, sizeof text_, format, args);
    va_end(args);
  }

  minfer_status status() const { return status_; }
  const char* what() const noexcept override { return text_; }

 private:
  minfer_status status_;
  char text_[MINFER_ERROR_BYTES] = {};
};

inline void write_error(minfer_error* error, const char* text) {
  if (error == nullptr) return;
  std::snprintf(error->text, sizeof error->text, "%s", text);
}

/// Runs `body`, which throws on failure, and turns what it throws into a status and a text.
template <class Body>
minfer_status guarded(minfer_error* error, Body&& body) noexcept {
  try {
    body();
    return MINFER_OK;
  } catch (const Failure& failure) {
    write_error(error, failure.what());
    return failure.status();
  } catch (const std::bad_alloc&) {
    write_error(error, "cpu: out of memory for the plugin's own tables");
    return MINFER_OOM_HOST;
  } catch (const std::exception& exception) {
    write_error(error, exception.what());
    return MINFER_INTERNAL;
  } catch (...) {
    write_error(error, "cpu: unknown exception");
    return MINFER_INTERNAL;
  }
}

}  // namespace minfer_cpu
