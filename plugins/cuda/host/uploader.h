// Moves file bytes to the device through pinned staging and repacks them there.
//
// A mapped file cannot be copied asynchronously, and one core reads the page cache at a fraction of
// the link's rate. So uploads are queued as chunks, and run() works them off with several threads;
// each has two pinned slots and a stream of its own, so that it fills one slot while the GPU pulls
// and repacks the other. The slots are allocated by the first run() and freed by release_staging().
// Thread-safety: one user at a time; a mutex serialises callers.
#pragma once

#include <atomic>
#include <mutex>
#include <vector>

#include "../kernels/layout.h"
#include "device.h"

namespace minfer_cuda {

class Uploader {
 public:
  /// `workers` threads at most, each with two slots of `slot_bytes` or what 32 rows need.
  explicit Uploader(Device& device, size_t workers = 8, uint64_t slot_bytes = 4u << 20)
      : device_(device), max_workers_(workers), least_slot_bytes_(slot_bytes) {}
  ~Uploader();

  /// Queues `od` file rows of `id` elements, to be repacked into tile32 at `out`.
  void queue_matrix(const TypeLayout& layout, const uint8_t* rows, int64_t id, int64_t od,
                    char* out);
  /// Queues plain bytes.
  void queue_plain(const uint8_t* data, uint64_t bytes, char* out);
  /// Uploads what is queued and waits. When it throws, the device may still be busy with a part:
  /// release_staging() waits for that.
  void run();
  /// Copies a plan's few constants and waits.
  void upload_constants(const uint8_t* data, uint64_t bytes, char* out);
  /// Waits, drops what is queued and frees the slots.
  void release_staging();

  std::mutex& mutex() { return mutex_; }

 private:
  /// A part of a weight that fits into a slot.
  struct Chunk {
    const uint8_t* from;
    uint64_t bytes;
    char* to;
    const TypeLayout* layout;  ///< null: plain bytes
    int64_t id, rows;
  };
  struct Slot {
    uint8_t* pinned = nullptr;
    uint8_t* raw = nullptr;
    cudaEvent_t free = nullptr;
  };
  struct Worker {
    cudaStream_t stream = nullptr;
    Slot slots[2];
  };
  void free_slots();
  void make_staging(size_t workers, uint64_t slot_bytes);
  void work(Worker& worker, std::atomic<size_t>& next);
  void send(const Chunk& chunk, Slot& slot, cudaStream_t stream);

  Device& device_;
  const size_t max_workers_;
  const uint64_t least_slot_bytes_;
  std::mutex mutex_;
  std::vector<Chunk> queue_;
  uint64_t slot_bytes_ = 0;
  uint8_t* pinned_ = nullptr;
  DeviceMemory raw_;
  std::vector<Worker> workers_;
};

}  // namespace minfer_cuda
