// Errors inside the plugin: exceptions that never cross the ABI, turned into a status and a text
// there.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstring>
#include <exception>
#include <new>
#include <sstream>
#include <string>

#include "minfer/plugin_abi.h"

namespace minfer_cuda {

/// Concatenates its arguments as a stream would print them.
template <class... Args>
std::string text(const Args&... args) {
  std::ostringstream out;
  (out << ... << args);
  return out.str();
}

class PluginError : public std::exception {
 public:
  PluginError(minfer_status status, std::string message)
      : status_(status), message_(std::move(message)) {}
  const char* what() const noexcept override { return message_.c_str(); }
  minfer_status status() const { return status_; }

 private:
  minfer_status status_;
  std::string message_;
};

/// Status of a CUDA error: what the caller can do about it decides, not where it arose.
inline minfer_status status_of(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return MINFER_OK;
    case cudaErrorMemoryAllocation:
      return MINFER_OOM_DEVICE;
    case cudaErrorInvalidValue:
    case cudaErrorInvalidConfiguration:
    case cudaErrorLaunchOutOfResources:
      return MINFER_INTERNAL;
    default:
      return MINFER_DEVICE_LOST;
  }
}

/// Throws when a CUDA call failed; clears the thread's last error so that it is not seen twice.
inline void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  cudaGetLastError();
  throw PluginError(status_of(error), text(what, ": ", cudaGetErrorString(error), " (",
                                           cudaGetErrorName(error), ")"));
}

inline void write_error(minfer_error* error, const char* message) {
  std::strncpy(error->text, message, MINFER_ERROR_BYTES - 1);
  error->text[MINFER_ERROR_BYTES - 1] = '\0';
}

/// Runs f at the ABI boundary.
template <class F>
minfer_status guard(minfer_error* error, F&& f) noexcept {
  try {
    f();
    return MINFER_OK;
  } catch (const PluginError& e) {
    write_error(error, e.what());
    return e.status();
  } catch (const std::bad_alloc&) {
    write_error(error, "cuda: out of host memory");
    return MINFER_OOM_HOST;
  } catch (const std::exception& e) {
    write_error(error, e.what());
    return MINFER_INTERNAL;
  }
}

}  // namespace minfer_cuda
