// Moves file bytes to the device through pinned staging and repacks them there.
//
// A mapped file cannot be copied asynchronously, so chunks go through a ring of pinned buffers:
// several threads copy from the page cache into one buffer while the GPU pulls the one before and
// repacks the one before that. The ring is allocated by the first upload and freed by
// release_staging(). Thread-safety: one upload at a time; a mutex serialises callers.
#pragma once

#include <mutex>
#include <vector>

#include "../kernels/layout.h"
#include "device.h"

namespace minfer_cuda {

class Uploader {
 public:
  explicit Uploader(Device& device) : device_(device) {}
  ~Uploader();

  /// Starts copying `od` file rows of `id` elements and repacking them into tile32 at `out`.
  void upload_matrix(const TypeLayout& layout, const uint8_t* rows, int64_t id, int64_t od,
                     char* out);
  /// Starts copying plain bytes.
  void upload_plain(const uint8_t* data, uint64_t bytes, char* out);
  /// Copies a plan's few constants and waits.
  void upload_constants(const uint8_t* data, uint64_t bytes, char* out);
  /// Waits for all uploads. The file's bytes are not read any more.
  void finish();
  /// Frees the ring and its device buffers.
  void release_staging();

  std::mutex& mutex() { return mutex_; }

 private:
  struct Slot {
    uint8_t* pinned = nullptr;
    DeviceMemory raw;
    cudaEvent_t free = nullptr;
  };
  Slot& next_slot();

  Device& device_;
  std::mutex mutex_;
  cudaStream_t stream_ = nullptr;
  std::vector<Slot> slots_;
  size_t next_ = 0;
};

}  // namespace minfer_cuda
