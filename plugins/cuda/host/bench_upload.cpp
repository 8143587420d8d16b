// Rate of weight uploads beside that of a plain copy from pinned memory, interleaved.
//
// usage: bench_upload FILE [ROUNDS]: any file, in the page cache; its bytes are taken as f32 and as
// Q4_K matrices (repacking does not look at values), 160 MiB a unit as a layer of a 7B model.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "device.h"
#include "uploader.h"

namespace {

using minfer_cuda::check;
using minfer_cuda::DeviceMemory;

constexpr uint64_t kUnitBytes = 160u << 20;
constexpr int64_t kRowElements = 4096;

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Bytes per second of copies from one pinned buffer.
double plain_copy(const DeviceMemory& to, uint64_t bytes) {
  void* pinned = nullptr;
  check(cudaHostAlloc(&pinned, kUnitBytes, cudaHostAllocDefault), "pinned memory");
  check(cudaMemcpy(to.get(), pinned, kUnitBytes, cudaMemcpyHostToDevice), "copy");
  const double begin = seconds();
  for (uint64_t at = 0; at < bytes; at += kUnitBytes) {
    check(cudaMemcpyAsync(to.get(), pinned, kUnitBytes, cudaMemcpyHostToDevice, nullptr), "copy");
  }
  check(cudaDeviceSynchronize(), "copy");
  const double rate = static_cast<double>(bytes) / (seconds() - begin);
  cudaFreeHost(pinned);
  return rate;
}

/// Bytes per second of the uploader over a fresh mapping, as plain bytes or as matrices.
double upload(minfer_cuda::Uploader& uploader, const DeviceMemory& to, int fd, uint64_t bytes,
              const minfer_cuda::TypeLayout* layout) {
  void* map = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
  if (map == MAP_FAILED) std::exit(2);
  const auto* data = static_cast<const uint8_t*>(map);
  const double begin = seconds();
  for (uint64_t at = 0; at + kUnitBytes <= bytes; at += kUnitBytes) {
    if (layout) {
      const auto rows = static_cast<int64_t>(kUnitBytes) /
                        minfer_cuda::file_row_bytes(*layout, kRowElements) / 32 * 32;
      uploader.queue_matrix(*layout, data + at, kRowElements, rows, to.get());
    } else {
      uploader.queue_plain(data + at, kUnitBytes, to.get());
    }
    uploader.run();
  }
  const double rate = static_cast<double>(bytes / kUnitBytes * kUnitBytes) / (seconds() - begin);
  munmap(map, bytes);
  return rate;
}

}  // namespace

int main(int argc, char** argv) {
  const int fd = argc > 1 ? open(argv[1], O_RDONLY | O_CLOEXEC) : -1;
  if (fd < 0) {
    std::fprintf(stderr, "usage: bench_upload FILE [ROUNDS]\n");
    return 2;
  }
  const auto bytes = static_cast<uint64_t>(lseek(fd, 0, SEEK_END)) / kUnitBytes * kUnitBytes;
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 5;
  minfer_device device(minfer_cuda::query_caps(0), minfer_cuda::Gates(nullptr));
  const DeviceMemory to(device, kUnitBytes + (16u << 20), "the bench");
  const auto* q4_k = minfer_cuda::find_layout(MINFER_TYPE_Q4_K);
  std::printf("%8s %8s %10s %18s %18s  (GB/s, of a pinned copy)\n", "threads", "chunk", "pinned",
              "upload", "upload, repacked");
  for (int round = 0; round < rounds; ++round) {
    for (const auto& [threads, chunk] : std::vector<std::pair<size_t, uint64_t>>{{8, 1u << 20},
                                                                                 {12, 1u << 20},
                                                                                 {14, 1u << 20},
                                                                                 {12, 1u << 19},
                                                                                 {14, 1u << 19},
                                                                                 {12, 1u << 18}}) {
      minfer_cuda::Uploader uploader(device, threads, chunk);
      const double plain = plain_copy(to, bytes);
      const double raw = upload(uploader, to, fd, bytes, nullptr);
      const double packed = upload(uploader, to, fd, bytes, q4_k);
      std::printf("%8zu %4llu KiB %10.1f %11.1f (%2.0f %%) %11.1f (%2.0f %%)\n", threads,
                  static_cast<unsigned long long>(chunk >> 10), plain / 1e9, raw / 1e9,
                  100 * raw / plain, packed / 1e9, 100 * packed / plain);
    }
  }
  return 0;
}
