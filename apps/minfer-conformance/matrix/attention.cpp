// KV_STORE and ATTENTION over paged caches: types, page sizes, groups, windows, soft caps, sinks,
// many sequences with shuffled pages, chunked prefill, pages copied, exported and imported.
#include <algorithm>
#include <numeric>

#include "cases.h"

namespace conformance {
namespace {

struct Shape {
  uint32_t type = MINFER_TYPE_F32;
  uint32_t heads = 4, kv_heads = 2, dim_k = 64, dim_v = 64;
  uint32_t page_tokens = 16;
  uint32_t window = 0;
  float soft_cap = 0.0f;
  uint32_t causal = 1;
  bool sinks = false;
  bool flat_out = false;  ///< destination [dim_v * heads, nt] instead of [dim_v, heads, nt]
};

// What a cache of this type gives back for a row.
std::vector<float> stored(uint32_t type, const float* x, size_t n) {
  std::vector<float> out(x, x + n);
  if (type == MINFER_TYPE_F16) {
    for (float& v : out) v = minfer_f16_to_f32(minfer_f32_to_f16(v));
  } else if (type == MINFER_TYPE_Q8_0) {
    for (size_t b = 0; b < n; b += 32) {
      float largest = 0.0f;
      for (size_t i = 0; i < 32; ++i) largest = std::max(largest, std::fabs(x[b + i]));
      const float scale = minfer_f16_to_f32(minfer_f32_to_f16(largest / 127.0f));
      for (size_t i = 0; i < 32; ++i) {
        out[b + i] = largest == 0.0f ? 0.0f : scale * std::round(x[b + i] * (127.0f / largest));
      }
    }
  }
  return out;
}

// Sequences with their whole history, and a cache that is filled step by step.
class Cache {
 public:
  struct Sequence {
    std::vector<int32_t> pages;
    std::vector<std::vector<float>> k, v;  // per position, as the cache gives them back
  };

  Cache(Device& device, std::mt19937_64& rng, const Shape& shape, uint32_t n_seqs,
        uint32_t max_tokens, uint32_t max_pages)
      : shape_(shape),
        rng_(rng),
        n_seqs_(n_seqs),
        max_pages_(max_pages),
        split_(max_tokens, n_seqs, 1, max_pages) {
    const uint32_t n_pages = n_seqs * max_pages + 3;
    free_.resize(n_pages);
    std::iota(free_.begin(), free_.end(), 0);
    std::shuffle(free_.begin(), free_.end(), rng);
    sequences.resize(n_seqs);
    build(max_tokens, n_pages);
    session = std::make_unique<Session>(device, split_);
  }

  /// Appends `counts[s]` tokens to each sequence and returns the step's error; 0 without `verify`.
  double step(const std::vector<uint32_t>& counts, bool verify = true) {
    std::vector<int32_t> pos, q_start = {0}, kv_len, table(size_t{max_pages_} * n_seqs_, -1);
    std::vector<int64_t> slots;
    std::vector<size_t> of;
    for (size_t s = 0; s < n_seqs_; ++s) {
      for (uint32_t i = 0; i < counts[s]; ++i) {
        const size_t position = sequences[s].k.size() + i;
        while (sequences[s].pages.size() <= position / shape_.page_tokens) {
          sequences[s].pages.push_back(free_.back());
          free_.pop_back();
        }
        pos.push_back(static_cast<int32_t>(position));
        slots.push_back(int64_t{sequences[s].pages[position / shape_.page_tokens]} *
                            shape_.page_tokens +
                        static_cast<int64_t>(position % shape_.page_tokens));
        of.push_back(s);
      }
      q_start.push_back(static_cast<int32_t>(pos.size()));
      kv_len.push_back(static_cast<int32_t>(sequences[s].k.size() + counts[s]));
      std::copy(sequences[s].pages.begin(), sequences[s].pages.end(),
                table.begin() + static_cast<int64_t>(s * max_pages_));
    }
    const auto nt = static_cast<uint32_t>(pos.size());
    const auto k = random_floats(rng_, int64_t{nt} * shape_.kv_heads * shape_.dim_k);
    const auto v = random_floats(rng_, int64_t{nt} * shape_.kv_heads * shape_.dim_v);
    const auto q = random_floats(rng_, int64_t{nt} * shape_.heads * shape_.dim_k);
    remember(of, k, v);
    session->set(k_, k);
    session->set(v_, v);
    session->set(q_, q);
    session->set(pos_, pos);
    session->set(slot_, slots);
    session->set(q_start_, q_start);
    session->set(kv_len_, kv_len);
    session->set(table_, table);
    session->run({nt, n_seqs_, 1, 0});
    if (!verify) return 0.0;
    auto ref = reference(of, pos, q);
    const auto got = session->get<float>(out_);
    ref.resize(got.size(), 0.0);
    return relative_error(got, ref);
  }

  std::vector<Sequence> sequences;
  std::unique_ptr<Session> session;
  const minfer_kv_desc& desc() const { return split_.regions[0]; }
  int32_t take_page() {
    const int32_t page = free_.back();
    free_.pop_back();
    return page;
  }

 private:
  void build(uint32_t max_tokens, uint32_t n_pages) {
    const Dynamic tokens{0, MINFER_DYN_TOKENS}, last{2, MINFER_DYN_TOKENS};
    minfer_kv_desc desc{};
    desc.type = shape_.type;
    desc.n_head_kv = shape_.kv_heads;
    desc.head_dim_k = shape_.dim_k;
    desc.head_dim_v = shape_.dim_v;
    desc.page_tokens = shape_.page_tokens;
    desc.n_pages = n_pages;
    const uint32_t kv = split_.kv(desc);
    const auto f32 = [&](uint32_t dim, uint32_t heads) {
      return split_.input(MINFER_TYPE_F32, {dim, heads, max_tokens}, MINFER_INPUT_HIDDEN, last);
    };
    k_ = f32(shape_.dim_k, shape_.kv_heads);
    v_ = f32(shape_.dim_v, shape_.kv_heads);
    q_ = f32(shape_.dim_k, shape_.heads);
    pos_ = split_.input(MINFER_TYPE_I32, {max_tokens}, MINFER_INPUT_POS, tokens);
    slot_ = split_.input(MINFER_TYPE_I64, {max_tokens}, MINFER_INPUT_SLOT, tokens);
    q_start_ = split_.input(MINFER_TYPE_I32, {n_seqs_ + 1}, MINFER_INPUT_Q_START);
    kv_len_ = split_.input(MINFER_TYPE_I32, {n_seqs_}, MINFER_INPUT_KV_LEN, {0, MINFER_DYN_SEQS});
    table_ = split_.input(MINFER_TYPE_I32, {max_pages_, n_seqs_}, MINFER_INPUT_BLOCK_TABLE,
                          {1, MINFER_DYN_SEQS});
    out_ = shape_.flat_out
               ? split_.output(MINFER_TYPE_F32, {shape_.dim_v * shape_.heads, max_tokens},
                               {1, MINFER_DYN_TOKENS})
               : split_.output(MINFER_TYPE_F32, {shape_.dim_v, shape_.heads, max_tokens}, last);
    split_.node(MINFER_OP_KV_STORE, {k_, v_, slot_}, MINFER_NONE, minfer_kv_params{0, kv});
    minfer_attention_params params{};
    params.kv = kv;
    params.n_head = shape_.heads;
    params.window = shape_.window;
    params.scale = scale();
    params.soft_cap = shape_.soft_cap;
    params.causal = shape_.causal;
    std::vector<uint32_t> sources = {q_, pos_, q_start_, kv_len_, table_};
    if (shape_.sinks) {
      sinks_ = f32_weight(random_floats(rng_, shape_.heads, 2.0f), shape_.heads);
      sources.push_back(split_.weight(sinks_, MINFER_USE_PLAIN));
    }
    split_.node(MINFER_OP_ATTENTION, sources, out_, params);
  }

  float scale() const { return 1.0f / std::sqrt(static_cast<float>(shape_.dim_k)); }

  void remember(const std::vector<size_t>& of, const std::vector<float>& k,
                const std::vector<float>& v) {
    const size_t nk = size_t{shape_.kv_heads} * shape_.dim_k;
    const size_t nv = size_t{shape_.kv_heads} * shape_.dim_v;
    for (size_t t = 0; t < of.size(); ++t) {
      sequences[of[t]].k.push_back(stored(shape_.type, k.data() + t * nk, nk));
      sequences[of[t]].v.push_back(stored(shape_.type, v.data() + t * nv, nv));
    }
  }

  std::vector<double> reference(const std::vector<size_t>& of, const std::vector<int32_t>& pos,
                                const std::vector<float>& q) const {
    std::vector<double> out;
    const size_t group = shape_.heads / shape_.kv_heads;
    for (size_t t = 0; t < of.size(); ++t) {
      const Sequence& s = sequences[of[t]];
      const int64_t p = pos[t];
      const int64_t begin = shape_.window == 0 ? 0 : std::max<int64_t>(0, p - shape_.window + 1);
      const int64_t end = shape_.causal ? p + 1 : static_cast<int64_t>(s.k.size());
      for (size_t h = 0; h < shape_.heads; ++h) {
        const float* query = q.data() + (t * shape_.heads + h) * shape_.dim_k;
        std::vector<double> weights;
        for (int64_t j = begin; j < end; ++j) {
          const float* key = s.k[static_cast<size_t>(j)].data() + h / group * shape_.dim_k;
          double dot = 0.0;
          for (size_t i = 0; i < shape_.dim_k; ++i) dot += double{query[i]} * key[i];
          dot *= scale();
          if (shape_.soft_cap != 0) dot = shape_.soft_cap * std::tanh(dot / shape_.soft_cap);
          weights.push_back(std::exp(dot));
        }
        double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
        if (shape_.sinks) sum += std::exp(double{sinks_.values[h]});
        for (size_t d = 0; d < shape_.dim_v; ++d) {
          double value = 0.0;
          for (size_t j = 0; j < weights.size(); ++j) {
            value += weights[j] * s.v[static_cast<size_t>(begin) + j][h / group * shape_.dim_v + d];
          }
          out.push_back(value / sum);
        }
      }
    }
    return out;
  }

  Shape shape_;
  std::mt19937_64& rng_;
  uint32_t n_seqs_, max_pages_;
  Split split_;
  Weight sinks_;
  std::vector<int32_t> free_;
  uint32_t k_ = 0, v_ = 0, q_ = 0, pos_ = 0, slot_ = 0, q_start_ = 0, kv_len_ = 0, table_ = 0,
           out_ = 0;
};

// Against the stored, rounded K and V.
double tolerance(const Shape& shape) {
  return shape.type == MINFER_TYPE_F32 ? 1e-5 : 1e-3;
}

void check(Device& device, std::mt19937_64& rng, const Shape& shape) {
  variant(fmt::format("{} heads {}/{} of {}/{} pages of {} window {} cap {}",
                      minfer_type_name(shape.type), shape.heads, shape.kv_heads, shape.dim_k,
                      shape.dim_v, shape.page_tokens, shape.window, shape.soft_cap),
          [&] {
            Cache cache(device, rng, shape, 3, 60, 100 / shape.page_tokens + 1);
            expect_below(cache.step({20, 1, 9}), tolerance(shape), "first prefill");
            expect_below(cache.step({30, 0, 23}), tolerance(shape),
                         "chunked prefill, one sequence idle");
            expect_below(cache.step({1, 1, 1}), tolerance(shape), "decode");
            expect_below(cache.step({1, 40, 0}), tolerance(shape), "decode beside prefill");
            expect_below(cache.step({0, 0, 1}), tolerance(shape), "one token");
          });
}

void every_cache_type_and_page_size(Bench& bench) {
  for (const uint32_t type : {MINFER_TYPE_F32, MINFER_TYPE_F16, MINFER_TYPE_Q8_0}) {
    for (const uint32_t page : {16u, 32u, 64u, 128u, 256u}) {
      Shape shape;
      shape.type = type;
      shape.page_tokens = page;
      check(bench.device, bench.rng, shape);
    }
  }
}

void heads_and_groups(Bench& bench) {
  struct Heads {
    uint32_t heads, kv_heads, dim_k, dim_v;
  };
  for (const Heads& h :
       {Heads{1, 1, 64, 64}, Heads{9, 3, 64, 64}, Heads{7, 1, 128, 128}, Heads{4, 4, 80, 48},
        Heads{4, 1, 256, 256}, Heads{40, 1, 32, 32}, Heads{3, 3, 5, 7}}) {
    for (const uint32_t type : {MINFER_TYPE_F32, MINFER_TYPE_F16}) {
      Shape shape;
      shape.type = type;
      shape.heads = h.heads;
      shape.kv_heads = h.kv_heads;
      shape.dim_k = h.dim_k;
      shape.dim_v = h.dim_v;
      check(bench.device, bench.rng, shape);
    }
  }
}

void windows_soft_caps_sinks_and_bidirectional(Bench& bench) {
  for (const uint32_t type : {MINFER_TYPE_F32, MINFER_TYPE_F16, MINFER_TYPE_Q8_0}) {
    Shape shape;
    shape.type = type;
    for (const uint32_t window : {1u, 5u, 37u, 1000u}) {
      shape.window = window;
      check(bench.device, bench.rng, shape);
    }
    shape.window = 0;
    shape.soft_cap = 2.0f;
    check(bench.device, bench.rng, shape);
    shape.sinks = true;
    check(bench.device, bench.rng, shape);
    shape.soft_cap = 0.0f;
    shape.flat_out = true;
    check(bench.device, bench.rng, shape);
    shape.causal = 0;
    check(bench.device, bench.rng, shape);
  }
}

// Long enough for a backend to cut the keys of one token into parts.
void long_context_decode(Bench& bench) {
  for (const uint32_t type : {MINFER_TYPE_F32, MINFER_TYPE_F16, MINFER_TYPE_Q8_0}) {
    Shape shape;
    shape.type = type;
    shape.heads = 6;
    shape.kv_heads = 1;
    shape.dim_k = shape.dim_v = 32;
    shape.sinks = true;
    variant(minfer_type_name(type), [&] {
      Cache cache(bench.device, bench.rng, shape, 1, 700, 200);
      for (int i = 0; i < 4; ++i) cache.step({700}, false);
      for (int i = 0; i < 3; ++i) expect_below(cache.step({1}), tolerance(shape));
    });
  }
}

// Large scores: exponentials would overflow without the running maximum.
void large_scores_stay_finite(Bench& bench) {
  Shape shape;
  shape.dim_k = shape.dim_v = 32;
  Split split(1, 1, 1, 1);
  minfer_kv_desc desc{};
  desc.type = MINFER_TYPE_F32;
  desc.n_head_kv = 1;
  desc.head_dim_k = desc.head_dim_v = 16;
  desc.page_tokens = 16;
  desc.n_pages = 1;
  const uint32_t kv = split.kv(desc);
  const uint32_t k = split.input(MINFER_TYPE_F32, {16, 1, 1});
  const uint32_t pos = split.input(MINFER_TYPE_I32, {1});
  const uint32_t slot = split.input(MINFER_TYPE_I64, {1});
  const uint32_t q_start = split.input(MINFER_TYPE_I32, {2});
  const uint32_t kv_len = split.input(MINFER_TYPE_I32, {1});
  const uint32_t table = split.input(MINFER_TYPE_I32, {1, 1});
  const uint32_t out = split.output(MINFER_TYPE_F32, {16, 1, 1});
  split.node(MINFER_OP_KV_STORE, {k, k, slot}, MINFER_NONE, minfer_kv_params{0, kv});
  minfer_attention_params params{};
  params.kv = kv;
  params.n_head = 1;
  params.scale = 100.0f;
  params.causal = 1;
  split.node(MINFER_OP_ATTENTION, {k, pos, q_start, kv_len, table}, out, params);
  Session session(bench.device, split);
  const auto values = random_floats(bench.rng, 16, 10.0f);
  session.set(k, values);
  session.set(pos, std::vector<int32_t>{0});
  session.set(slot, std::vector<int64_t>{0});
  session.set(q_start, std::vector<int32_t>{0, 1});
  session.set(kv_len, std::vector<int32_t>{1});
  session.set(table, std::vector<int32_t>{0});
  session.run({});
  expect_below(
      relative_error(session.get<float>(out), std::vector<double>(values.begin(), values.end())),
      1e-5);
  // The same token seeing nothing.
  session.set(kv_len, std::vector<int32_t>{0});
  session.run({});
  expect_equal(session.get<float>(out), std::vector<float>(16, 0.0f));
}

// A page copied, or exported and imported, serves another sequence exactly like the first.
void pages_copy_and_travel(Bench& bench) {
  for (const uint32_t type : {MINFER_TYPE_F32, MINFER_TYPE_F16, MINFER_TYPE_Q8_0}) {
    variant(minfer_type_name(type), [&] {
      Shape shape;
      shape.type = type;
      Cache cache(bench.device, bench.rng, shape, 2, 40, 10);
      cache.step({40, 0});
      Memory& region = cache.session->region(0);
      auto& first = cache.sequences[0];
      auto& second = cache.sequences[1];
      second = first;
      const auto from = static_cast<uint32_t>(first.pages[0]);
      second.pages[0] = cache.take_page();
      const auto to = static_cast<uint32_t>(second.pages[0]);
      MINFER_CALL(kv_copy_pages, bench.device.queue, &cache.desc(), region.buffer, &from, &to, 1);
      for (const size_t page : {size_t{1}, size_t{2}}) {
        if (!MINFER_HAS_FN(&plugin(), kv_export_page)) return;
        std::vector<float> canonical(size_t{16} * 2 * (64 + 64));
        MINFER_CALL(kv_export_page, bench.device.queue, &cache.desc(), region.buffer,
                    static_cast<uint32_t>(first.pages[page]), canonical.data());
        MINFER_CALL(queue_wait, bench.device.queue);
        if (page == 1) {
          std::vector<float> expected;
          for (size_t i = 16; i < 32; ++i) {
            expected.insert(expected.end(), first.k[i].begin(), first.k[i].end());
          }
          for (size_t i = 16; i < 32; ++i) {
            expected.insert(expected.end(), first.v[i].begin(), first.v[i].end());
          }
          expect_equal(canonical, expected);
        }
        for (float& value : canonical) value = std::isfinite(value) ? value : 0.0f;
        second.pages[page] = cache.take_page();
        MINFER_CALL(kv_import_page, bench.device.queue, &cache.desc(), region.buffer,
                    static_cast<uint32_t>(second.pages[page]), canonical.data());
        MINFER_CALL(queue_wait, bench.device.queue);
      }
      expect_below(cache.step({1, 1}), tolerance(shape));
      expect_below(cache.step({7, 7}), tolerance(shape));
    });
  }
}

constexpr Case kCases[] = {
    {"attention.EveryCacheTypeAndPageSize", every_cache_type_and_page_size},
    {"attention.HeadsAndGroups", heads_and_groups},
    {"attention.WindowsSoftCapsSinksAndBidirectional", windows_soft_caps_sinks_and_bidirectional},
    {"attention.LongContextDecode", long_context_decode},
    {"attention.LargeScoresStayFinite", large_scores_stay_finite},
    {"attention.PagesCopyAndTravel", pages_copy_and_travel},
};

}  // namespace

std::span<const Case> attention_cases() {
  return kCases;
}

}  // namespace conformance
