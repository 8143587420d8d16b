// Pinned staging and device-side repacking of weights (see uploader.h).
#include "uploader.h"

#include <sys/mman.h>
#include <unistd.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <algorithm>
#include <thread>

#include "../kernels/repack.h"

namespace minfer_cuda {
namespace {

/// Maps the pages of a file's bytes at one stroke, where the system can; one by one they cost more
/// than the copy. A failure is none: the copy then faults as ever.
void map_pages(const uint8_t* data, uint64_t bytes) {
#ifdef MADV_POPULATE_READ
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(data) / page * page;
  const uintptr_t end = reinterpret_cast<uintptr_t>(data) + bytes;
  madvise(reinterpret_cast<void*>(begin), end - begin, MADV_POPULATE_READ);
#endif
}

/// Copies past the caches where the processor can: what is staged is read by the GPU alone, and a
/// line that need not be fetched before it is written saves a third of the memory traffic.
void stage(uint8_t* to, const uint8_t* from, uint64_t bytes) {
#ifdef __SSE2__
  constexpr uint64_t kLine = 64;
  const uint64_t lines = bytes / kLine;
  for (uint64_t i = 0; i < lines; ++i) {
    const auto* in = reinterpret_cast<const __m128i*>(from + i * kLine);
    auto* out = reinterpret_cast<__m128i*>(to + i * kLine);
    for (int k = 0; k < 4; ++k) _mm_stream_si128(out + k, _mm_loadu_si128(in + k));
  }
  _mm_sfence();
  std::memcpy(to + lines * kLine, from + lines * kLine, bytes - lines * kLine);
#else
  std::memcpy(to, from, bytes);
#endif
}

}  // namespace

Uploader::~Uploader() {
  release_staging();
}

void Uploader::release_staging() {
  queue_.clear();
  free_slots();
}

void Uploader::free_slots() {
  const DeviceScope scope(device_.caps().ordinal);
  for (Worker& worker : workers_) {
    if (worker.stream) cudaStreamSynchronize(worker.stream);
    for (Slot& slot : worker.slots) {
      if (slot.free) cudaEventDestroy(slot.free);
    }
    if (worker.stream) cudaStreamDestroy(worker.stream);
  }
  workers_.clear();
  if (pinned_) cudaFreeHost(pinned_);
  pinned_ = nullptr;
  raw_ = DeviceMemory();
  cudaGetLastError();
}

void Uploader::make_staging(size_t workers, uint64_t slot_bytes) {
  if (workers_.size() >= workers && slot_bytes_ >= slot_bytes) return;
  free_slots();
  const uint64_t bytes = workers * 2 * slot_bytes;
  raw_ = DeviceMemory(device_, bytes, "upload staging", Account::kStaging);
  check(cudaHostAlloc(reinterpret_cast<void**>(&pinned_), bytes, cudaHostAllocDefault),
        "pinned upload staging");
  slot_bytes_ = slot_bytes;
  workers_.resize(workers);
  uint64_t at = 0;
  for (Worker& worker : workers_) {
    check(cudaStreamCreateWithFlags(&worker.stream, cudaStreamNonBlocking), "an upload stream");
    for (Slot& slot : worker.slots) {
      check(cudaEventCreateWithFlags(&slot.free, cudaEventDisableTiming), "create an event");
      slot.pinned = pinned_ + at;
      slot.raw = reinterpret_cast<uint8_t*>(raw_.get()) + at;
      at += slot_bytes;
    }
  }
}

void Uploader::queue_matrix(const TypeLayout& layout, const uint8_t* rows, int64_t id, int64_t od,
                            char* out) {
  const int64_t row_bytes = file_row_bytes(layout, id);
  const int64_t per_chunk =
      std::max<int64_t>(1, static_cast<int64_t>(least_slot_bytes_) / row_bytes / kTileRows) *
      kTileRows;
  for (int64_t row = 0; row < od; row += per_chunk) {
    const int64_t n = std::min(per_chunk, od - row);
    queue_.push_back({rows + row * row_bytes, static_cast<uint64_t>(n * row_bytes),
                      out + row * blocks_of_row(layout, id) * layout.block_bytes, &layout, id, n});
  }
}

void Uploader::queue_plain(const uint8_t* data, uint64_t bytes, char* out) {
  for (uint64_t at = 0; at < bytes; at += least_slot_bytes_) {
    queue_.push_back({data + at, std::min(least_slot_bytes_, bytes - at), out + at, nullptr, 0, 0});
  }
}

void Uploader::send(const Chunk& chunk, Slot& slot, cudaStream_t stream) {
  check(cudaEventSynchronize(slot.free), "upload");
  map_pages(chunk.from, chunk.bytes);
  stage(slot.pinned, chunk.from, chunk.bytes);
  void* to = chunk.layout ? static_cast<void*>(slot.raw) : chunk.to;
  check(cudaMemcpyAsync(to, slot.pinned, chunk.bytes, cudaMemcpyHostToDevice, stream),
        "upload weights");
  if (chunk.layout) {
    check(launch_repack(*chunk.layout, slot.raw, chunk.id, chunk.rows,
                        reinterpret_cast<uint8_t*>(chunk.to), stream),
          "repack weights");
  }
  check(cudaEventRecord(slot.free, stream), "upload");
}

void Uploader::work(Worker& worker, std::atomic<size_t>& next) {
  const DeviceScope scope(device_.caps().ordinal);
  size_t turn = 0;
  for (size_t i = next++; i < queue_.size(); i = next++) {
    send(queue_[i], worker.slots[turn++ % 2], worker.stream);
  }
}

void Uploader::run() {
  const DeviceScope scope(device_.caps().ordinal);
  uint64_t largest = least_slot_bytes_;
  for (const Chunk& chunk : queue_) largest = std::max(largest, chunk.bytes);
  const size_t cores = std::max(1u, std::thread::hardware_concurrency());
  const size_t n = std::min({queue_.size(), cores, max_workers_});
  std::atomic<size_t> next{0};
  std::vector<std::exception_ptr> failures(n);
  const auto guarded = [&](size_t w) {
    try {
      work(workers_[w], next);
    } catch (...) {
      failures[w] = std::current_exception();
      next = queue_.size();
    }
  };
  if (n > 0) {
    make_staging(n, largest);
    std::vector<std::jthread> threads;
    for (size_t w = 1; w < n; ++w) threads.emplace_back(guarded, w);
    guarded(0);
  }
  queue_.clear();
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
  for (Worker& worker : workers_) check(cudaStreamSynchronize(worker.stream), "upload weights");
}

void Uploader::upload_constants(const uint8_t* data, uint64_t bytes, char* out) {
  const std::lock_guard lock(mutex_);
  // Loading is over when plans are bound: the staging's memory is better used elsewhere.
  release_staging();
  if (bytes == 0) return;
  const DeviceScope scope(device_.caps().ordinal);
  // Of a pageable copy only the end of its stream tells that it has arrived.
  check(cudaMemcpyAsync(out, data, bytes, cudaMemcpyHostToDevice, nullptr), "upload constants");
  check(cudaStreamSynchronize(nullptr), "upload constants");
}

}  // namespace minfer_cuda
