// Times of the decode kernels in the chain of a model and one matrix after another.
#include "../decode.h"
#include "bench.h"

namespace minfer_cuda::hopper::bench {

namespace {

DecodeSegment decode_segment(const Matrix& m, float* out, const float* residual = nullptr) {
  return {m.tiles, m.type, m.od, nullptr, residual, out, m.od, m.od};
}

/// The decode chain of the model; attention is left out, the query stands for its result.
struct DecodeChain {
  const Model& model;
  int n;               ///< tokens
  int most_warps = 0;  ///< of DecodeCall
  Buffer x{size_t{4} * n * Model::kEmbd, 0}, qkv{size_t{4} * n * 4608};
  Buffer logits{size_t{4} * n * Model::kVocab};
  Buffer normed{int8_rows_bytes(Model::kEmbd, n), 0}, attn{int8_rows_bytes(Model::kEmbd, n), 0};
  Buffer normed2{int8_rows_bytes(Model::kEmbd, n), 0}, gated{int8_rows_bytes(Model::kFf, n), 0};
  Buffer squares{size_t{448} * n, 0}, squares2{size_t{448} * n, 0}, norm{Model::kEmbd * 4, 0};

  void run(bool overlap) {
    const auto rows = [this](Buffer& b, int id) { return int8_rows_at(b.data, id, n); };
    CHECK(launch_quantize(x.as<float>(), Model::kEmbd, Model::kEmbd, n, nullptr,
                          rows(normed, Model::kEmbd), false, g_stream));
    for (const Layer& l : model.layers) {
      DecodeCall c;
      c.overlap = overlap;
      c.tokens = n;
      c.most_warps = most_warps;
      c.id = Model::kEmbd;
      c.eps = 1e-6f;
      c.x = rows(normed, Model::kEmbd);
      c.squares = squares.as<float>();
      c.n_segments = 3;
      c.segments[0] = decode_segment(l.q, nullptr);
      c.segments[1] = decode_segment(l.k, qkv.as<float>());
      c.segments[2] = decode_segment(l.v, qkv.as<float>() + 512);
      c.out_int8 = rows(attn, Model::kEmbd);
      CHECK(launch_decode(c, g_sms, g_stream));

      DecodeCall o;
      o.overlap = overlap;
      o.tokens = n;
      o.most_warps = most_warps;
      o.id = Model::kEmbd;
      o.x = rows(attn, Model::kEmbd);
      o.n_segments = 1;
      o.segments[0] = decode_segment(l.o, x.as<float>(), x.as<float>());
      o.out_int8 = rows(normed2, Model::kEmbd);
      o.out_scale = norm.as<float>();
      o.out_scale_offset = 1.f;
      o.out_squares = squares2.as<float>();
      CHECK(launch_decode(o, g_sms, g_stream));

      DecodeCall g;
      g.overlap = overlap;
      g.tokens = n;
      g.most_warps = most_warps;
      g.id = Model::kEmbd;
      g.eps = 1e-6f;
      g.x = rows(normed2, Model::kEmbd);
      g.squares = squares2.as<float>();
      g.n_segments = 2;
      g.gated = true;
      g.segments[0] = decode_segment(l.gate, nullptr);
      g.segments[1] = decode_segment(l.up, nullptr);
      g.out_int8 = rows(gated, Model::kFf);
      CHECK(launch_decode(g, g_sms, g_stream));

      DecodeCall d = o;
      d.id = Model::kFf;
      d.x = rows(gated, Model::kFf);
      d.segments[0] = decode_segment(l.down, x.as<float>(), x.as<float>());
      d.out_int8 = rows(normed, Model::kEmbd);
      d.out_squares = squares.as<float>();
      CHECK(launch_decode(d, g_sms, g_stream));
    }
    DecodeCall h;
    h.overlap = overlap;
    h.tokens = n;
    h.most_warps = most_warps;
    h.id = Model::kEmbd;
    h.eps = 1e-6f;
    h.x = rows(normed, Model::kEmbd);
    h.squares = squares.as<float>();
    h.n_segments = 1;
    h.segments[0] = decode_segment(model.head, logits.as<float>());
    CHECK(launch_decode(h, g_sms, g_stream));
  }
};

void bench_chain(const Model& model, int tokens, int most_warps, bool overlap) {
  DecodeChain chain{model, tokens, most_warps};
  chain.x.put(random_floats(size_t{1} * tokens * Model::kEmbd, 77));
  const double us = time_graph([&] { chain.run(overlap); }, 30);
  add_line("decode chain, %2d tokens, warps <= %2d, %-11s %8.1f us  %.3f TB/s  %7.0f tok/s", tokens,
           most_warps, overlap ? "overlapped" : "plain graph", us, model.bytes / us * 1e-6,
           tokens / us * 1e6);
}

/// One matrix after another of each kind, without the rest.
void bench_matrices(const Model& model, int tokens) {
  const auto one = [&](const char* name, auto pick, int id, bool gated) {
    size_t bytes = 0;
    Buffer rows(int8_rows_bytes(id, tokens), 1), out(size_t{4} * tokens * Model::kFf);
    const double us = time_graph(
        [&] {
          bytes = 0;
          for (const Layer& l : model.layers) {
            DecodeCall c;
            c.id = id;
            c.overlap = true;
            c.tokens = tokens;
            c.x = int8_rows_at(rows.data, id, tokens);
            c.gated = gated;
            for (const Matrix* m : pick(l)) {
              c.segments[c.n_segments++] = decode_segment(*m, out.as<float>());
              bytes += m->bytes;
            }
            CHECK(launch_decode(c, g_sms, g_stream));
          }
        },
        20);
    add_line("decode of %2d %-23s %7.2f us each     %.3f TB/s", tokens, name, us / Model::kLayers,
             bytes / us * 1e-6);
  };
  using List = std::vector<const Matrix*>;
  one(
      "qkv 3584x4608",
      [](const Layer& l) {
        return List{&l.q, &l.k, &l.v};
      },
      Model::kEmbd, false);
  one(
      "o 3584x3584", [](const Layer& l) { return List{&l.o}; }, Model::kEmbd, false);
  one(
      "gate, up 3584x37888",
      [](const Layer& l) {
        return List{&l.gate, &l.up};
      },
      Model::kEmbd, true);
  one(
      "down 18944x3584", [](const Layer& l) { return List{&l.down}; }, Model::kFf, false);
}

}  // namespace

void bench_decode(const Model& model, const std::vector<int>& counts) {
  for (int tokens : counts) {
    bench_chain(model, tokens, 0, true);
    if (tokens == 1) continue;
    for (int warps : {7, 10, 14}) bench_chain(model, tokens, warps, true);
  }
  bench_chain(model, 1, 0, false);
  for (int tokens : {1, 8, 16}) bench_matrices(model, tokens);
}

}  // namespace minfer_cuda::hopper::bench
