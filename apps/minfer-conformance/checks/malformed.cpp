// Graphs, counts and ranges that break the contract. The core does not make them; a plugin that
// checks turns a fault of the core into an error text instead of a crash or wrong numbers.
#include <cstring>

#include "checks.h"

namespace conformance {
namespace {

/// plan_compile must fail with a text and leave its outputs alone; supports may not say yes.
void expect_invalid(Bench& bench, Split& split, const std::string& what) {
  variant(what, [&] {
    minfer_verdict verdict{};
    verdict.struct_size = sizeof verdict;
    minfer_error error = {};
    const minfer_status asked =
        plugin().supports(bench.device.handle, split.abi(), &bench.device.gates, &verdict, &error);
    expect(asked != MINFER_OK || verdict.supported == 0, "supports says yes");
    auto* const marker = reinterpret_cast<minfer_plan*>(uintptr_t{0x1234});
    minfer_plan* plan = marker;
    minfer_plan_info info{};
    info.struct_size = sizeof info;
    info.workspace_bytes = 4711;
    error = {};
    const minfer_status compiled = plugin().plan_compile(bench.device.handle, split.abi(),
                                                         &bench.device.gates, &plan, &info, &error);
    expect(compiled != MINFER_OK, "plan_compile accepts it");
    expect(plan == marker && info.workspace_bytes == 4711,
           "plan_compile failed and wrote an output");
    expect(error.text[0] != '\0', "plan_compile failed without a text");
  });
}

void graphs(Bench& bench) {
  {
    Split split;
    split.node(MINFER_OP_SILU, {77}, split.output(MINFER_TYPE_F32, {4}));
    expect_invalid(bench, split, "a source that does not exist");
  }
  {
    Split split;
    split.node(MINFER_OP_SILU, {split.input(MINFER_TYPE_F32, {4})}, 99);
    expect_invalid(bench, split, "a destination that does not exist");
  }
  {
    Split split;
    const uint32_t x = split.input(MINFER_TYPE_F32, {4});
    split.node(MINFER_OP_SILU, {x}, split.output(MINFER_TYPE_F32, {5}));
    expect_invalid(bench, split, "shapes that do not fit");
  }
  {
    Split split;
    const uint32_t x = split.input(MINFER_TYPE_F32, {8});
    split.node(MINFER_OP_SILU, {split.view(x, {8}, {1}, 4)}, split.output(MINFER_TYPE_F32, {8}));
    expect_invalid(bench, split, "a view past its owner");
  }
  {
    Split split;
    const uint32_t x = split.input(MINFER_TYPE_F32, {4});
    for (int64_t& n : split.tensors[x].ne) n = int64_t{1} << 40;
    split.node(MINFER_OP_SILU, {x}, split.output(MINFER_TYPE_F32, {4}));
    expect_invalid(bench, split, "dimensions whose product overflows");
  }
  {
    Split split;
    const uint32_t x = split.input(MINFER_TYPE_F32, {4});
    split.node(MINFER_OP_ADD, {x}, split.output(MINFER_TYPE_F32, {4}));
    expect_invalid(bench, split, "an operand that is missing");
  }
}

void counts(Bench& bench) {
  variant("a run beyond the capacity", [&] {
    Split split(2);
    const Dynamic tokens{1, MINFER_DYN_TOKENS};
    const uint32_t x = split.input(MINFER_TYPE_F32, {4, 2}, MINFER_INPUT_HIDDEN, tokens);
    const uint32_t out = split.output(MINFER_TYPE_F32, {4, 2}, tokens);
    split.node(MINFER_OP_SILU, {x}, out);
    Session session(bench.device, split);
    session.set(x, random_floats(bench.rng, 8));
    minfer_run_args args{};
    args.struct_size = sizeof args;
    args.n_tokens = 3;
    args.n_seqs = args.n_outs = 1;
    args.gates = &bench.device.gates;
    minfer_error error = {};
    expect(plugin().plan_run(session.plan(), bench.device.queue, &args, &error) != MINFER_OK,
           "plan_run takes 3 tokens where there is room for 2");
    expect(error.text[0] != '\0', "plan_run failed without a text");
    session.run({2, 1, 1, 0});
  });
}

void ranges(Bench& bench) {
  variant("copies beyond a buffer", [&] {
    minfer_buffer* buffer = nullptr;
    MINFER_CALL(buffer_alloc, bench.device.handle, 1000, &buffer);
    minfer_error error = {};
    uint8_t bytes[2] = {7, 7};
    const auto write = [&](uint64_t offset, uint64_t n) {
      return plugin().buffer_write(bench.device.queue, buffer, offset, bytes, n, &error);
    };
    const auto read = [&](uint64_t offset, uint64_t n) {
      return plugin().buffer_read(bench.device.queue, buffer, offset, bytes, n, &error);
    };
    expect_equal(write(1000, 1), MINFER_INVALID, "status of a write behind the end");
    expect_equal(write(~uint64_t{0}, 2), MINFER_INVALID, "status of a write whose end overflows");
    expect_equal(read(999, 2), MINFER_INVALID, "status of a read across the end");
    MINFER_CALL(buffer_write, bench.device.queue, buffer, 999, bytes, 1);
    MINFER_CALL(queue_wait, bench.device.queue);
    plugin().buffer_free(buffer);
  });
}

}  // namespace

void check_malformed(Bench& bench) {
  graphs(bench);
  counts(bench);
  ranges(bench);
}

}  // namespace conformance
