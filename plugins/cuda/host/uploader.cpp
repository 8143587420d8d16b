// Pinned staging and device-side repacking of weights (see uploader.h).
#include "uploader.h"

#include <algorithm>
#include <thread>

#include "../kernels/repack.h"

namespace minfer_cuda {
namespace {

constexpr uint64_t kSlotBytes = 16u << 20;
constexpr size_t kSlots = 4;
constexpr uint64_t kBytesPerThread = 1u << 20;

/// Copies with several threads: one core reads the page cache at a fraction of the link's rate.
void parallel_copy(uint8_t* to, const uint8_t* from, uint64_t bytes) {
  const uint64_t cores = std::max(1u, std::thread::hardware_concurrency());
  const uint64_t wanted = std::min<uint64_t>({bytes / kBytesPerThread, cores, 8});
  if (wanted <= 1) {
    std::memcpy(to, from, bytes);
    return;
  }
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < wanted; ++t) {
    const uint64_t begin = bytes * t / wanted, end = bytes * (t + 1) / wanted;
    threads.emplace_back([=] { std::memcpy(to + begin, from + begin, end - begin); });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

Uploader::~Uploader() {
  release_staging();
  if (!stream_) return;
  const DeviceScope scope(device_.caps().ordinal);
  cudaStreamDestroy(stream_);
}

void Uploader::release_staging() {
  const DeviceScope scope(device_.caps().ordinal);
  if (stream_) cudaStreamSynchronize(stream_);
  for (Slot& slot : slots_) {
    if (slot.pinned) cudaFreeHost(slot.pinned);
    if (slot.free) cudaEventDestroy(slot.free);
  }
  slots_.clear();
  cudaGetLastError();
}

Uploader::Slot& Uploader::next_slot() {
  if (!stream_) {
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "create the upload stream");
  }
  if (slots_.size() < kSlots) {
    slots_.reserve(kSlots);
    Slot& slot = slots_.emplace_back();
    slot.raw = DeviceMemory(device_, kSlotBytes, "upload staging", Account::kStaging);
    check(cudaHostAlloc(reinterpret_cast<void**>(&slot.pinned), kSlotBytes, cudaHostAllocDefault),
          "pinned upload staging");
    check(cudaEventCreateWithFlags(&slot.free, cudaEventDisableTiming), "create an event");
    return slot;
  }
  Slot& slot = slots_[next_++ % kSlots];
  check(cudaEventSynchronize(slot.free), "upload");
  return slot;
}

void Uploader::upload_matrix(const TypeLayout& layout, const uint8_t* rows, int64_t id, int64_t od,
                             char* out) {
  const DeviceScope scope(device_.caps().ordinal);
  const int64_t row_bytes = file_row_bytes(layout, id);
  const int64_t per_chunk =
      std::max<int64_t>(1, static_cast<int64_t>(kSlotBytes) / row_bytes / kTileRows) * kTileRows;
  if (per_chunk * row_bytes > static_cast<int64_t>(kSlotBytes)) {
    throw PluginError(MINFER_UNSUPPORTED,
                      text("rows of ", id, " elements (", row_bytes, " bytes) are too long"));
  }
  for (int64_t row = 0; row < od; row += per_chunk) {
    const int64_t n = std::min(per_chunk, od - row);
    Slot& slot = next_slot();
    parallel_copy(slot.pinned, rows + row * row_bytes, static_cast<uint64_t>(n * row_bytes));
    check(cudaMemcpyAsync(slot.raw.get(), slot.pinned, static_cast<size_t>(n * row_bytes),
                          cudaMemcpyHostToDevice, stream_),
          "upload weights");
    auto* to =
        reinterpret_cast<uint8_t*>(out) + row * blocks_of_row(layout, id) * layout.block_bytes;
    check(
        launch_repack(layout, reinterpret_cast<const uint8_t*>(slot.raw.get()), id, n, to, stream_),
        "repack weights");
    check(cudaEventRecord(slot.free, stream_), "upload");
  }
}

void Uploader::upload_plain(const uint8_t* data, uint64_t bytes, char* out) {
  const DeviceScope scope(device_.caps().ordinal);
  for (uint64_t at = 0; at < bytes; at += kSlotBytes) {
    const uint64_t n = std::min(kSlotBytes, bytes - at);
    Slot& slot = next_slot();
    parallel_copy(slot.pinned, data + at, n);
    check(cudaMemcpyAsync(out + at, slot.pinned, n, cudaMemcpyHostToDevice, stream_),
          "upload weights");
    check(cudaEventRecord(slot.free, stream_), "upload");
  }
}

void Uploader::upload_constants(const uint8_t* data, uint64_t bytes, char* out) {
  const std::lock_guard lock(mutex_);
  // Loading is over when plans are bound: the staging's memory is better used elsewhere.
  release_staging();
  if (bytes == 0) return;
  const DeviceScope scope(device_.caps().ordinal);
  if (!stream_) {
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "create the upload stream");
  }
  check(cudaMemcpyAsync(out, data, bytes, cudaMemcpyHostToDevice, stream_), "upload constants");
  check(cudaStreamSynchronize(stream_), "upload constants");
}

void Uploader::finish() {
  if (!stream_) return;
  const DeviceScope scope(device_.caps().ordinal);
  check(cudaStreamSynchronize(stream_), "upload weights");
}

}  // namespace minfer_cuda
