// More memory than there is: a status and a text, outputs untouched, and the device goes on.
#include "checks.h"
#include "small_plan.h"

namespace conformance {

void check_out_of_memory(Bench& bench) {
  SmallPlan plan(bench);
  auto* const marker = reinterpret_cast<minfer_buffer*>(uintptr_t{0x1234});
  for (const uint64_t bytes :
       {uint64_t{1} << 50, uint64_t{1} << 62, ~uint64_t{0}, ~uint64_t{0} - 63}) {
    variant(fmt::format("a buffer of {} bytes", bytes), [&] {
      minfer_buffer* buffer = marker;
      minfer_error error = {};
      const minfer_status status =
          plugin().buffer_alloc(bench.device.handle, bytes, &buffer, &error);
      expect(status == MINFER_OOM_HOST || status == MINFER_OOM_DEVICE,
             fmt::format("buffer_alloc returned {}, expected {} or {}", status, MINFER_OOM_HOST,
                         MINFER_OOM_DEVICE));
      expect(buffer == marker, "the output was written");
      expect(error.text[0] != '\0', "no text");
      plan.run_and_check(bench.device.queue, "after the refusal");
    });
  }
  if (!MINFER_HAS_FN(&plugin(), host_alloc)) return;
  variant("pinned memory", [&] {
    void* memory = nullptr;
    minfer_error error = {};
    expect(
        plugin().host_alloc(bench.device.handle, uint64_t{1} << 50, &memory, &error) != MINFER_OK,
        "host_alloc gives a pebibyte");
    expect(memory == nullptr, "the output was written");
    plan.run_and_check(bench.device.queue, "after the refusal");
  });
}

}  // namespace conformance
