// Pinned staging and device-side repacking of weights (see uploader.h).
#include "uploader.h"

#include <algorithm>

#include "../kernels/repack.h"

namespace minfer_cuda {
namespace {

constexpr size_t kLeastSlots = 4;

}  // namespace

Uploader::~Uploader() {
  release_staging();
}

void Uploader::release_staging() {
  queue_.clear();
  free_staging();
}

void Uploader::free_staging() {
  {
    const std::lock_guard lock(turn_);
    stop_ = true;
  }
  may_stage_.notify_all();
  workers_.clear();  // joins
  stop_ = false;
  const DeviceScope scope(device_.caps().ordinal);
  for (cudaStream_t& stream : streams_) {
    if (!stream) continue;
    cudaStreamSynchronize(stream);
    cudaStreamDestroy(stream);
    stream = nullptr;
  }
  for (Slot& slot : slots_) {
    if (slot.free) cudaEventDestroy(slot.free);
  }
  slots_.clear();
  if (pinned_) cudaFreeHost(pinned_);
  pinned_ = nullptr;
  raw_ = DeviceMemory();
  cudaGetLastError();
}

void Uploader::make_staging(uint64_t slot_bytes) {
  const size_t most = std::max<size_t>(kLeastSlots, ring_bytes_ / slot_bytes);
  const size_t n = std::clamp(queue_.size(), kLeastSlots, most);
  if (slots_.size() >= n && slot_bytes_ >= slot_bytes) return;
  free_staging();
  raw_ = DeviceMemory(device_, n * slot_bytes, "upload staging", Account::kStaging);
  check(cudaHostAlloc(reinterpret_cast<void**>(&pinned_), n * slot_bytes, cudaHostAllocDefault),
        "pinned upload staging");
  for (cudaStream_t& stream : streams_) {
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "an upload stream");
  }
  slot_bytes_ = slot_bytes;
  slots_.resize(n);
  for (size_t i = 0; i < n; ++i) {
    slots_[i].pinned = pinned_ + i * slot_bytes;
    slots_[i].raw = reinterpret_cast<uint8_t*>(raw_.get()) + i * slot_bytes;
    check(cudaEventCreateWithFlags(&slots_[i].free, cudaEventDisableTiming), "create an event");
  }
  const size_t cores = std::max(1u, std::thread::hardware_concurrency());
  for (size_t w = 0; w < std::min({cores, max_workers_, n}); ++w) {
    workers_.emplace_back([this] { stage_chunks(); });
  }
}

void Uploader::queue_matrix(const TypeLayout& layout, const uint8_t* rows, int64_t id, int64_t od,
                            char* out) {
  const int64_t row_bytes = file_row_bytes(layout, id);
  const int64_t per_chunk =
      std::max<int64_t>(1, static_cast<int64_t>(chunk_bytes_) / row_bytes / kTileRows) * kTileRows;
  for (int64_t row = 0; row < od; row += per_chunk) {
    const int64_t n = std::min(per_chunk, od - row);
    queue_.push_back({rows + row * row_bytes, static_cast<uint64_t>(n * row_bytes),
                      out + row * blocks_of_row(layout, id) * layout.block_bytes, &layout, id, n});
  }
}

void Uploader::queue_plain(const uint8_t* data, uint64_t bytes, char* out) {
  for (uint64_t at = 0; at < bytes; at += chunk_bytes_) {
    queue_.push_back({data + at, std::min(chunk_bytes_, bytes - at), out + at, nullptr, 0, 0});
  }
}

/// A worker: stages chunks in order as slots become free.
void Uploader::stage_chunks() {
  std::unique_lock lock(turn_);
  for (;;) {
    may_stage_.wait(lock, [this] { return stop_ || next_ < end_; });
    if (stop_) return;
    const size_t i = next_++;
    ++staging_;
    lock.unlock();
    std::memcpy(slots_[i % slots_.size()].pinned, queue_[i].from, queue_[i].bytes);
    lock.lock();
    --staging_;
    staged_[i] = 1;
    is_staged_.notify_one();
  }
}

void Uploader::send(const Chunk& chunk, Slot& slot, cudaStream_t stream) {
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

void Uploader::send_all() {
  // Half of the ring is kept for the GPU: its slots are long free when they are asked for.
  const size_t n = slots_.size(), ahead = n / 2;
  for (size_t i = 0; i < queue_.size(); ++i) {
    if (i >= ahead) check(cudaEventSynchronize(slots_[(i - ahead) % n].free), "upload");
    std::unique_lock lock(turn_);
    end_ = std::min(queue_.size(), i < ahead ? n : i - ahead + 1 + n);
    may_stage_.notify_all();
    is_staged_.wait(lock, [this, i] { return staged_[i] != 0; });
    lock.unlock();
    send(queue_[i], slots_[i % n], streams_[i % 2]);
  }
  for (cudaStream_t stream : streams_) check(cudaStreamSynchronize(stream), "upload weights");
}

void Uploader::run() {
  if (queue_.empty()) return;
  const DeviceScope scope(device_.caps().ordinal);
  uint64_t largest = chunk_bytes_;
  for (const Chunk& chunk : queue_) largest = std::max(largest, chunk.bytes);
  make_staging(largest);
  const auto rest = [this](size_t chunks) {
    std::unique_lock lock(turn_);
    end_ = next_;
    is_staged_.wait(lock, [this] { return staging_ == 0; });
    next_ = end_ = 0;
    staged_.assign(chunks, 0);
  };
  rest(queue_.size());
  try {
    send_all();
  } catch (...) {
    rest(0);
    throw;
  }
  rest(0);
  queue_.clear();
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
