// Times of the wgmma matmul in the chain of a model.
#include "../prefill.h"
#include "bench.h"

namespace minfer_cuda::hopper::bench {

namespace {

struct PrefillChain {
  const Model& model;
  int tokens;
  Buffer x, q, kv, half, gated, scale, workspace, flags, count, squares;
  PrefillTile tile = {};
  bool folds = false;
  PrefillChain(const Model& m, int n, int in_use)
      : model(m),
        tokens(n),
        x(size_t{4} * n * Model::kEmbd, 0),
        q(size_t{4} * n * Model::kEmbd),
        kv(size_t{4} * n * 1024),
        half(size_t{2} * n * Model::kEmbd),
        gated(size_t{2} * n * Model::kFf),
        scale(n * 4),
        workspace(160 << 20),
        flags(kPrefillFlagBytes, 0),
        count(4),
        squares(size_t{4} * n * Model::kEmbd / 64, 0) {
    count.put(std::vector<int32_t>{in_use});
    x.put(random_floats(size_t{1} * n * Model::kEmbd, 99));
  }
  PrefillCall call(const uint16_t* in, const float* s, float factor) const {
    PrefillCall c;
    c.x = in;
    c.x_scale = s;
    c.x_factor = factor;
    c.workspace = workspace.as<float>();
    c.flags = flags.as<uint32_t>();
    c.valid = count.as<int32_t>();
    c.overlap = true;
    return c;
  }
  void launch(const PrefillCall& c, uint32_t type, int id, const std::vector<int32_t>& od,
              bool gate = false) const {
    CHECK(launch_prefill(c, plan_prefill({type, id, tokens, od, gate, tile}, g_sms), g_sms,
                         g_stream));
  }
  void qkv(const Layer& l) const {
    PrefillCall c = call(half.as<uint16_t>(), scale.as<float>(), 1.f);
    read_published(c);
    const PrefillSegment v{l.v.tiles, nullptr, nullptr, 0, kv.as<float>() + 512, 1024};
    c.segments[0] = {l.q.tiles, nullptr, nullptr, 0, q.as<float>(), Model::kEmbd};
    c.segments[1] = {l.k.tiles, nullptr, nullptr, 0, kv.as<float>(), 1024};
    c.segments[2] = v;
    if (l.v.type == l.q.type) return launch(c, l.q.type, Model::kEmbd, {Model::kEmbd, 512, 512});
    launch(c, l.q.type, Model::kEmbd, {Model::kEmbd, 512});
    c.segments[0] = v;
    launch(c, l.v.type, Model::kEmbd, {512});
  }
  void out(const Layer& l) const {
    PrefillCall c = call(half.as<uint16_t>(), scale.as<float>(), 1.f);
    c.segments[0] = {l.o.tiles, nullptr, x.as<float>(), Model::kEmbd, x.as<float>(), Model::kEmbd};
    publish(c);
    launch(c, l.o.type, Model::kEmbd, {Model::kEmbd});
  }
  void gate_up(const Layer& l) const {
    PrefillCall c = call(half.as<uint16_t>(), scale.as<float>(), 1.f);
    read_published(c);
    c.segments[0].weight = l.gate.tiles;
    c.segments[1].weight = l.up.tiles;
    c.half_out = gated.as<uint16_t>();
    launch(c, l.gate.type, Model::kEmbd, {Model::kFf, Model::kFf}, true);
  }
  void down(const Layer& l) const {
    PrefillCall c = call(gated.as<uint16_t>(), nullptr, kGatedScale);
    c.segments[0] = {l.down.tiles, nullptr,       x.as<float>(),
                     Model::kEmbd, x.as<float>(), Model::kEmbd};
    publish(c);
    launch(c, l.down.type, Model::kFf, {Model::kEmbd});
  }
  /// Makes a launch publish for the norm after it, or read what the one before published.
  void publish(PrefillCall& c) const {
    if (!folds) return;
    c.half_out = half.as<uint16_t>();
    c.out_squares = squares.as<float>();
  }
  void read_published(PrefillCall& c) const {
    if (!folds) return;
    c.x_scale = nullptr;
    c.x_factor = kPublishedScale;
    c.x_squares = squares.as<float>();
    c.eps = 1e-6f;
  }
  void norm() const {
    if (folds) return;
    launch_norm();
  }
  void launch_norm() const {
    CHECK(launch_norm_to_fragments(x.as<float>(), Model::kEmbd, nullptr, 0.f, 1e-6f, Model::kEmbd,
                                   tokens, count.as<int32_t>(), half.as<uint16_t>(),
                                   scale.as<float>(), true, g_stream));
  }
  void run() const {
    if (folds) launch_norm();
    for (const Layer& l : model.layers) {
      norm();
      qkv(l);
      CHECK(launch_to_fragments(q.as<float>(), Model::kEmbd, Model::kEmbd, tokens,
                                count.as<int32_t>(), half.as<uint16_t>(), scale.as<float>(), true,
                                g_stream));
      out(l);
      norm();
      gate_up(l);
      down(l);
    }
  }
};

struct PrefillBench {
  int capacity, valid;
  PrefillTile tile = {};
  bool folds = false;  ///< norms into the matmuls
};

const PrefillBench kBenches[] = {{16, 16, {0, 128}},
                                 {16, 16, {0, 256}},
                                 {16, 16, {0, 128}, true},
                                 {16, 16, {0, 256}, true},
                                 {16, 16, {}, true},
                                 {32, 32, {0, 128}},
                                 {32, 32, {0, 256}},
                                 {32, 32, {0, 128}, true},
                                 {32, 32, {0, 256}, true},
                                 {32, 32, {}, true},
                                 {64, 64, {0, 128}},
                                 {64, 64, {0, 256}},
                                 {64, 64},
                                 {64, 64, {128, 0}},
                                 {128, 128},
                                 {128, 128, {256, 0}},
                                 {512, 300, {128, 0}},
                                 {512, 300, {256, 0}},
                                 {512, 512, {128, 0}},
                                 {512, 512, {256, 0}},
                                 {512, 512},
                                 {2048, 1111, {128, 0}},
                                 {2048, 1111, {256, 0}},
                                 {2048, 1111},
                                 {2048, 2048}};

}  // namespace

void bench_prefill(const Model& model) {
  constexpr double kWeights =
      28.0 * (3584.0 * 4608 + 3584.0 * 3584 + 3584.0 * 37888 + 18944.0 * 3584);
  for (const PrefillBench& b : kBenches) {
    PrefillChain chain(model, b.capacity, b.valid);
    chain.tile = b.tile;
    chain.folds = b.folds;
    const int n = b.valid, repeats = n > 1000 ? 5 : 9;
    const double us = time_graph([&] { chain.run(); }, repeats);
    const auto one = [&](auto step) {
      return time_graph(
                 [&] {
                   for (const Layer& l : model.layers) step(l);
                 },
                 repeats) /
             28;
    };
    const double qkv = one([&](const Layer& l) { chain.qkv(l); });
    const double o = one([&](const Layer& l) { chain.out(l); });
    const double gate_up = one([&](const Layer& l) { chain.gate_up(l); });
    const double down = one([&](const Layer& l) { chain.down(l); });
    const double norm = one([&](const Layer&) { chain.launch_norm(); });
    add_line(
        "prefill chain %5d/%5d tokens, tile %3dx%3d%s %10.1f us %7.0f tok/s %6.1f TFLOP/s; each: "
        "qkv "
        "%.1f o %.1f gate_up %.1f down %.1f norm %.1f us",
        n, b.capacity, b.tile.tokens, b.tile.rows, b.folds ? ", norms folded" : "", us,
        n / us * 1e6, 2 * kWeights * n / us * 1e-6, qkv, o, gate_up, down, norm);
  }
}

}  // namespace minfer_cuda::hopper::bench
