// What a later core may know and this plugin does not: operators, revisions and types. Asked for
// one, a plugin says no; it never says yes, and never crashes.
#include <cstring>

#include "checks.h"

namespace conformance {
namespace {

auto* const kMarker = reinterpret_cast<minfer_plan*>(uintptr_t{0x1234});

/// Neither supports nor plan_compile may accept the split.
void expect_refused(Bench& bench, Split& split, const std::string& what) {
  variant(what, [&] {
    minfer_verdict verdict{};
    verdict.struct_size = sizeof verdict;
    minfer_error error = {};
    const minfer_status asked =
        plugin().supports(bench.device.handle, split.abi(), &bench.device.gates, &verdict, &error);
    expect(asked != MINFER_OK || verdict.supported == 0, "supports says yes");
    if (asked == MINFER_OK) expect(verdict.reason[0] != '\0', "supports says no without a reason");
    minfer_plan* plan = kMarker;
    minfer_plan_info info{};
    info.struct_size = sizeof info;
    error = {};
    const minfer_status compiled = plugin().plan_compile(bench.device.handle, split.abi(),
                                                         &bench.device.gates, &plan, &info, &error);
    expect(compiled != MINFER_OK, "plan_compile accepts it");
    expect(plan == kMarker, "plan_compile failed and wrote its output");
    expect(error.text[0] != '\0', "plan_compile failed without a text");
  });
}

void unknown_weight_types(Bench& bench) {
  for (const uint32_t type : {4u, 5u, 9u, 200u, 0xffffffffu}) {
    const Weight weight = f32_weight(random_floats(bench.rng, 256 * 4), 256, 4);
    Split split;
    const uint32_t w = split.weight(weight, MINFER_USE_MATMUL);
    split.tensors[w].type = type;
    const uint32_t x = split.input(MINFER_TYPE_F32, {256});
    split.node(MINFER_OP_MATMUL, {w, x}, split.output(MINFER_TYPE_F32, {4}));
    expect_refused(bench, split, fmt::format("a weight of type {}", type));
  }
}

void unknown_activation_types(Bench& bench) {
  for (const uint32_t type : {MINFER_TYPE_Q4_0, 99u}) {
    Split split;
    const uint32_t x = split.input(MINFER_TYPE_F32, {32});
    split.tensors[x].type = type;
    split.node(MINFER_OP_SILU, {x}, split.output(MINFER_TYPE_F32, {32}));
    expect_refused(bench, split, fmt::format("an activation of type {}", type));
  }
}

void unknown_cache_types(Bench& bench) {
  for (const uint32_t type : {MINFER_TYPE_I64, 99u}) {
    variant(fmt::format("a KV cache of type {}", type), [&] {
      minfer_kv_desc desc{};
      desc.struct_size = sizeof desc;
      desc.type = type;
      desc.n_head_kv = 2;
      desc.head_dim_k = desc.head_dim_v = 64;
      desc.page_tokens = 16;
      desc.n_pages = 2;
      uint64_t bytes = 0;
      minfer_error error = {};
      expect(plugin().kv_page_bytes(bench.device.handle, &desc, &bytes, &error) != MINFER_OK,
             "kv_page_bytes accepts it");
      expect(error.text[0] != '\0', "kv_page_bytes failed without a text");
    });
  }
}

}  // namespace

void check_unknown(Bench& bench) {
  for (const uint32_t op : {0u, 18u, 999u, 0xffffffffu}) {
    Split split;
    const uint32_t x = split.input(MINFER_TYPE_F32, {4});
    split.node(op, {x}, split.output(MINFER_TYPE_F32, {4}));
    expect_refused(bench, split, fmt::format("operator {}", op));
  }
  for (const uint32_t revision : {2u, 1000u}) {
    Split split;
    const uint32_t x = split.input(MINFER_TYPE_F32, {4});
    split.node(MINFER_OP_ADD, {x, x}, split.output(MINFER_TYPE_F32, {4}));
    split.nodes[0].revision = revision;
    expect_refused(bench, split, fmt::format("revision {} of ADD", revision));
  }
  unknown_weight_types(bench);
  unknown_activation_types(bench);
  unknown_cache_types(bench);
}

}  // namespace conformance
