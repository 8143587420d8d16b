// KV pages: the core chooses a page size among those listed and allocates n_pages times the bytes.
#include <algorithm>

#include "checks.h"

namespace conformance {

void check_pages(Bench& bench) {
  for (const uint32_t type : {MINFER_TYPE_F32, MINFER_TYPE_F16, MINFER_TYPE_Q8_0}) {
    variant(minfer_type_name(type), [&] {
      minfer_kv_desc desc{};
      desc.struct_size = sizeof desc;
      desc.type = type;
      desc.n_head_kv = 2;
      desc.head_dim_k = desc.head_dim_v = 64;
      uint32_t sizes[16] = {}, n = 16;
      minfer_error error = {};
      const minfer_status status =
          plugin().kv_page_sizes(bench.device.handle, &desc, sizes, &n, &error);
      if (status == MINFER_UNSUPPORTED) throw Refused(error.text);
      require_ok(status, error, "kv_page_sizes");
      n = std::min(n, 16u);
      if (!expect(n > 0, "no page size")) return;
      expect(sizes[0] > 0 && std::is_sorted(sizes, sizes + n, std::less_equal<uint32_t>()),
             fmt::format("sizes do not ascend: {}", fmt::join(sizes, sizes + n, ", ")));
      uint64_t before = 0;
      for (uint32_t i = 0; i < n; ++i) {
        desc.page_tokens = sizes[i];
        uint64_t bytes = 0;
        MINFER_CALL(kv_page_bytes, bench.device.handle, &desc, &bytes);
        const uint64_t rows = uint64_t{sizes[i]} * desc.n_head_kv * 2;
        const uint64_t least =
            rows * 64 / minfer_type_values(type) * static_cast<uint64_t>(minfer_type_bytes(type));
        expect(bytes >= least, fmt::format("a page of {} tokens has {} bytes, K and V need {}",
                                           sizes[i], bytes, least));
        expect(bytes > before, "a larger page has no more bytes");
        before = bytes;
      }
    });
  }
}

}  // namespace conformance
