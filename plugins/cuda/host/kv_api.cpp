// KV pages through the ABI (see kv_api.h).
#include "kv_api.h"

#include <algorithm>
#include <vector>

#include "../kernels/kv.h"
#include "abi_read.h"
#include "ops.h"
#include "queue.h"

namespace minfer_cuda {
namespace {

KvPages pages_of(const minfer_kv_desc& kv, uint32_t page_tokens) {
  KvPages pages;
  pages.type = kv.type;
  pages.n_head = static_cast<int32_t>(kv.n_head_kv);
  pages.dim_k = static_cast<int32_t>(kv.head_dim_k);
  pages.dim_v = static_cast<int32_t>(kv.head_dim_v);
  pages.page_tokens = static_cast<int32_t>(page_tokens);
  require_kv(pages);
  lay_out_page(pages);
  return pages;
}

KvPages pages_in(const minfer_kv_desc& kv, const minfer_buffer& region) {
  KvPages pages = pages_of(kv, kv.page_tokens);
  pages.base = region.at(0, static_cast<uint64_t>(pages.page_bytes) * kv.n_pages);
  return pages;
}

void require_page(const minfer_kv_desc& kv, uint32_t page) {
  if (page >= kv.n_pages) {
    throw PluginError(MINFER_INVALID, text("page ", page, " of ", kv.n_pages));
  }
}

minfer_status kv_page_sizes(minfer_device*, const minfer_kv_desc* kv, uint32_t* sizes, uint32_t* n,
                            minfer_error* error) {
  return guard(error, [&] {
    pages_of(read_struct(kv), kMinPageTokens);
    std::vector<uint32_t> all;
    for (uint32_t s = kMinPageTokens; s <= kMaxPageTokens; s *= 2) all.push_back(s);
    std::copy_n(all.begin(), std::min<size_t>(all.size(), *n), sizes);
    *n = static_cast<uint32_t>(all.size());
  });
}

minfer_status kv_page_bytes(minfer_device*, const minfer_kv_desc* kv, uint64_t* bytes,
                            minfer_error* error) {
  return guard(error, [&] {
    const minfer_kv_desc desc = read_struct(kv);
    *bytes = static_cast<uint64_t>(pages_of(desc, desc.page_tokens).page_bytes);
  });
}

minfer_status kv_copy_pages(minfer_queue* queue, const minfer_kv_desc* kv, minfer_buffer* region,
                            const uint32_t* from, const uint32_t* to, uint32_t n,
                            minfer_error* error) {
  return guard(error, [&] {
    queue->require_healthy();
    const minfer_kv_desc desc = read_struct(kv);
    const KvPages pages = pages_in(desc, *region);
    const DeviceScope scope(queue->device->caps().ordinal);
    for (uint32_t i = 0; i < n; ++i) {
      require_page(desc, from[i]);
      require_page(desc, to[i]);
      const auto bytes = static_cast<size_t>(pages.page_bytes);
      queue->raise(cudaMemcpyAsync(pages.base + pages.page_bytes * to[i],
                                   pages.base + pages.page_bytes * from[i], bytes,
                                   cudaMemcpyDeviceToDevice, queue->stream),
                   "copy KV pages");
    }
  });
}

uint64_t canonical_bytes(const KvPages& p) {
  return static_cast<uint64_t>(p.n_head) * static_cast<uint64_t>(p.page_tokens) *
         static_cast<uint64_t>(p.dim_k + p.dim_v) * 4;
}

minfer_status kv_export_page(minfer_queue* queue, const minfer_kv_desc* kv, minfer_buffer* region,
                             uint32_t page, float* out, minfer_error* error) {
  return guard(error, [&] {
    queue->require_healthy();
    const minfer_kv_desc desc = read_struct(kv);
    require_page(desc, page);
    const KvPages pages = pages_in(desc, *region);
    const DeviceScope scope(queue->device->caps().ordinal);
    const DeviceMemory canonical(*queue->device, canonical_bytes(pages), "a KV page's export");
    auto* values = reinterpret_cast<float*>(canonical.get());
    queue->raise(launch_export_page(pages, page, values, queue->stream), "export a KV page");
    queue->raise(
        cudaMemcpyAsync(out, values, canonical.bytes(), cudaMemcpyDeviceToHost, queue->stream),
        "export a KV page");
    queue->raise(cudaStreamSynchronize(queue->stream), "export a KV page");
  });
}

minfer_status kv_import_page(minfer_queue* queue, const minfer_kv_desc* kv, minfer_buffer* region,
                             uint32_t page, const float* in, minfer_error* error) {
  return guard(error, [&] {
    queue->require_healthy();
    const minfer_kv_desc desc = read_struct(kv);
    require_page(desc, page);
    const KvPages pages = pages_in(desc, *region);
    const DeviceScope scope(queue->device->caps().ordinal);
    const DeviceMemory canonical(*queue->device, canonical_bytes(pages), "a KV page's import");
    auto* values = reinterpret_cast<float*>(canonical.get());
    queue->raise(
        cudaMemcpyAsync(values, in, canonical.bytes(), cudaMemcpyHostToDevice, queue->stream),
        "import a KV page");
    queue->raise(launch_import_page(pages, page, values, queue->stream), "import a KV page");
    queue->raise(cudaStreamSynchronize(queue->stream), "import a KV page");
  });
}

}  // namespace

void fill_kv_table(minfer_plugin& table) {
  table.kv_page_sizes = kv_page_sizes;
  table.kv_page_bytes = kv_page_bytes;
  table.kv_copy_pages = kv_copy_pages;
  table.kv_export_page = kv_export_page;
  table.kv_import_page = kv_import_page;
}

}  // namespace minfer_cuda
