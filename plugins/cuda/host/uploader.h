// Moves file bytes to the device through pinned staging and repacks them there.
//
// A mapped file cannot be copied asynchronously, and one core reads the page cache at a fraction of
// the link's rate. So uploads are queued as chunks, and run() works them off: threads copy chunks
// into a ring of pinned slots, in order, and the caller hands each staged chunk to the GPU, which
// pulls and repacks it. All driver calls come from the caller's thread: from several they wait for
// one another longer than a chunk takes. Threads and slots are made by the first run() and go with
// release_staging(). Thread-safety: one user at a time; a mutex serialises callers.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "../kernels/layout.h"
#include "device.h"

namespace minfer_cuda {

class Uploader {
 public:
  /// `workers` threads at most, and a ring of `ring_bytes` for chunks of `chunk_bytes`.
  explicit Uploader(Device& device, size_t workers = 12, uint64_t chunk_bytes = 1u << 20,
                    uint64_t ring_bytes = 64u << 20)
      : device_(device),
        max_workers_(workers),
        chunk_bytes_(chunk_bytes),
        ring_bytes_(ring_bytes) {}
  ~Uploader();

  /// Queues `od` file rows of `id` elements, to be repacked into tile32 at `out`.
  void queue_matrix(const TypeLayout& layout, const uint8_t* rows, int64_t id, int64_t od,
                    char* out);
  /// Queues plain bytes.
  void queue_plain(const uint8_t* data, uint64_t bytes, char* out);
  /// Uploads what is queued and waits. The file's bytes are not read any more, also when it throws;
  /// then the device may still be busy with a part: release_staging() waits for that.
  void run();
  /// Copies a plan's few constants and waits.
  void upload_constants(const uint8_t* data, uint64_t bytes, char* out);
  /// Waits, drops what is queued, ends the threads and frees the slots.
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
  void free_staging();
  void make_staging(uint64_t slot_bytes);
  void stage_chunks();
  void send_all();
  void send(const Chunk& chunk, Slot& slot, cudaStream_t stream);

  Device& device_;
  const size_t max_workers_;
  const uint64_t chunk_bytes_;
  const uint64_t ring_bytes_;
  std::mutex mutex_;

  std::vector<Chunk> queue_;
  uint64_t slot_bytes_ = 0;
  uint8_t* pinned_ = nullptr;
  DeviceMemory raw_;
  std::vector<Slot> slots_;  ///< chunk i lies in slot i modulo their number
  cudaStream_t streams_[2] = {};

  // Between the caller and its threads.
  std::mutex turn_;
  std::condition_variable may_stage_, is_staged_;
  size_t next_ = 0;     ///< chunk that is staged next
  size_t end_ = 0;      ///< chunks from here on have no free slot yet
  size_t staging_ = 0;  ///< chunks that are being staged
  bool stop_ = false;
  std::vector<char> staged_;
  std::vector<std::jthread> workers_;
};

}  // namespace minfer_cuda
