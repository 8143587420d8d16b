// Weights and KV pages of a device: sizes that placement and the memory plan build on, so every
// figure is held against what it must at least or at most be.
#include <fmt/format.h>

#include <algorithm>

#include "plugin/abi_text.h"
#include "plugin/device.h"

namespace minfer {
namespace {

constexpr uint32_t kMaxPageSizes = 16;
constexpr uint32_t kMaxPageTokens = 1u << 16;

/// Bytes of the weights in the file.
uint64_t file_bytes(const minfer_weight_unit& unit) {
  uint64_t sum = 0;
  const auto* at = reinterpret_cast<const char*>(unit.weights);
  for (uint32_t i = 0; i < unit.n_weights; ++i, at += unit.weight_stride)
    sum += reinterpret_cast<const minfer_weight*>(at)->bytes;
  return sum;
}

/// Bytes that K and V of one page take without padding.
uint64_t dense_page_bytes(const minfer_kv_desc& kv) {
  const uint64_t values =
      uint64_t{kv.page_tokens} * kv.n_head_kv * (uint64_t{kv.head_dim_k} + kv.head_dim_v);
  switch (kv.type) {
    case MINFER_TYPE_F32:
      return values * 4;
    case MINFER_TYPE_F16:
      return values * 2;
    default:
      return values;
  }
}

}  // namespace

Result<uint64_t> PluginDevice::weights_size(const minfer_weight_unit& unit) {
  uint64_t bytes = UINT64_MAX;
  MINFER_TRY(call("weights_size", [&](minfer_error* e) {
    return table_.weights_size(raw_, &unit, &gates_, &bytes, e);
  }));
  if (bytes == UINT64_MAX) return broken("weights_size", "it succeeded and returned no size");
  // The widest form of the narrowest type, f32 of 2-bit weights, is 16 times the file.
  const uint64_t most = 32 * file_bytes(unit) + (uint64_t{1} << 24);
  if (bytes > most)
    return broken("weights_size", fmt::format("{} bytes for {} bytes of weights in the file", bytes,
                                              file_bytes(unit)));
  return bytes;
}

Result<WeightsHandle> PluginDevice::weights_import(const minfer_weight_unit& unit) {
  return create<minfer_weights>("weights_import", table_.weights_free,
                                [&](minfer_weights** out, minfer_error* e) {
                                  return table_.weights_import(raw_, &unit, &gates_, out, e);
                                });
}

Result<std::vector<uint32_t>> PluginDevice::kv_page_sizes(const minfer_kv_desc& kv) {
  std::vector<uint32_t> sizes(kMaxPageSizes, 0);
  uint32_t n = kMaxPageSizes;
  MINFER_TRY(call("kv_page_sizes", [&](minfer_error* e) {
    return table_.kv_page_sizes(raw_, &kv, sizes.data(), &n, e);
  }));
  if (n == 0 || n > kMaxPageSizes)
    return broken("kv_page_sizes", fmt::format("n = {}; 1 to {} is expected", n, kMaxPageSizes));
  sizes.resize(n);
  for (size_t i = 0; i < sizes.size(); ++i)
    if (sizes[i] == 0 || sizes[i] > kMaxPageTokens || (i > 0 && sizes[i] <= sizes[i - 1]))
      return broken("kv_page_sizes",
                    fmt::format("size {} is {}; ascending sizes from 1 to {} are expected", i,
                                sizes[i], kMaxPageTokens));
  return sizes;
}

Result<uint64_t> PluginDevice::kv_page_bytes(const minfer_kv_desc& kv) {
  uint64_t bytes = 0;
  MINFER_TRY(call("kv_page_bytes",
                  [&](minfer_error* e) { return table_.kv_page_bytes(raw_, &kv, &bytes, e); }));
  const uint64_t least = dense_page_bytes(kv);
  const uint64_t most = 16 * least + (uint64_t{1} << 20);
  if (bytes < least || bytes > most)
    return broken("kv_page_bytes",
                  fmt::format("{} bytes for a page whose K and V take {}", bytes, least));
  return bytes;
}

Result<void> PluginDevice::kv_copy_pages(minfer_queue* queue, const minfer_kv_desc& kv,
                                         minfer_buffer* region, std::span<const uint32_t> from,
                                         std::span<const uint32_t> to) {
  if (from.size() != to.size())
    return fail(ErrorCode::kInternal,
                fmt::format("{} source pages for {} targets", from.size(), to.size()), info_.id);
  return call("kv_copy_pages", [&](minfer_error* e) {
    return table_.kv_copy_pages(queue, &kv, region, from.data(), to.data(),
                                static_cast<uint32_t>(from.size()), e);
  });
}

Result<void> PluginDevice::kv_export_page(minfer_queue* queue, const minfer_kv_desc& kv,
                                          minfer_buffer* region, uint32_t page, float* out) {
  if (!table_.kv_export_page) return absent("kv_export_page");
  return call("kv_export_page", [&](minfer_error* e) {
    return table_.kv_export_page(queue, &kv, region, page, out, e);
  });
}

Result<void> PluginDevice::kv_import_page(minfer_queue* queue, const minfer_kv_desc& kv,
                                          minfer_buffer* region, uint32_t page, const float* in) {
  if (!table_.kv_import_page) return absent("kv_import_page");
  return call("kv_import_page", [&](minfer_error* e) {
    return table_.kv_import_page(queue, &kv, region, page, in, e);
  });
}

}  // namespace minfer
