// KV_STORE and ATTENTION: every KV type, head size, page size, mask and batch shape against float64
// on the values that the cache really holds (read back through kv_export_page).
#include <algorithm>
#include <cmath>

#include "harness.h"

namespace minfer_cuda::test {
namespace {

struct Shape {
  uint32_t type = MINFER_TYPE_F16;
  uint32_t dim = 64, n_head = 4, n_head_kv = 2, page = 16;
  std::vector<int32_t> before{5};  ///< positions held by each sequence before the step
  std::vector<int32_t> tokens{3};  ///< new tokens of each
  uint32_t padding = 1;            ///< unused tokens of the capacity
  uint32_t window = 0;
  float soft_cap = 0.f;
  bool sinks = false;
  bool causal = true;
};

/// Pages of every sequence, shuffled so that nothing depends on their order.
struct Tables {
  int32_t max_pages = 0;
  std::vector<int32_t> pages;  ///< [seqs][max_pages]
  uint32_t n_pages = 0;
};

Tables make_tables(const Shape& c) {
  Tables t;
  const auto page = static_cast<int32_t>(c.page);
  std::vector<int32_t> needed;
  for (size_t s = 0; s < c.before.size(); ++s) {
    needed.push_back((c.before[s] + c.tokens[s] + page - 1) / page);
    t.max_pages = std::max(t.max_pages, needed.back() + 1);
    t.n_pages += static_cast<uint32_t>(needed.back());
  }
  std::vector<int32_t> ids(t.n_pages);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i);
  std::shuffle(ids.begin(), ids.end(), rng());
  size_t next = 0;
  for (int32_t n : needed) {
    for (int32_t p = 0; p < t.max_pages; ++p) t.pages.push_back(p < n ? ids[next++] : -1);
  }
  return t;
}

minfer_kv_desc describe(const Shape& c, uint32_t n_pages) {
  minfer_kv_desc kv{};
  kv.struct_size = sizeof kv;
  kv.type = c.type;
  kv.n_head_kv = c.n_head_kv;
  kv.head_dim_k = kv.head_dim_v = c.dim;
  kv.page_tokens = c.page;
  kv.n_pages = n_pages;
  return kv;
}

/// Fills a region with history and the step's keys and values, runs the attention, compares.
void check_attention(const Shape& c, const GateOverrides& gates = {}) {
  const Tables tables = make_tables(c);
  const auto seqs = static_cast<int64_t>(c.before.size());
  int64_t used = 0;
  for (int32_t n : c.tokens) used += n;
  const int64_t nt = used + c.padding;
  const auto dim = static_cast<int64_t>(c.dim), heads = static_cast<int64_t>(c.n_head),
             kv_heads = static_cast<int64_t>(c.n_head_kv);
  Split s;
  s.capacity.tokens = static_cast<uint32_t>(nt);
  s.capacity.seqs = static_cast<uint32_t>(seqs);
  s.capacity.max_pages = static_cast<uint32_t>(tables.max_pages);
  s.args.n_tokens = static_cast<uint32_t>(used);
  s.args.n_seqs = static_cast<uint32_t>(seqs);

  std::vector<int32_t> pos(static_cast<size_t>(nt), 0), q_start{0}, kv_len;
  std::vector<int64_t> slot(static_cast<size_t>(nt), -1);
  size_t t = 0;
  for (size_t q = 0; q < c.before.size(); ++q) {
    for (int32_t i = 0; i < c.tokens[q]; ++i, ++t) {
      pos[t] = c.before[q] + i;
      const auto page = static_cast<size_t>(pos[t]) / c.page;
      slot[t] = int64_t{tables.pages[q * static_cast<size_t>(tables.max_pages) + page]} * c.page +
                pos[t] % static_cast<int32_t>(c.page);
    }
    q_start.push_back(static_cast<int32_t>(t));
    kv_len.push_back(c.before[q] + c.tokens[q]);
  }
  const std::vector<float> q = random_floats(static_cast<size_t>(nt * heads * dim));
  const std::vector<float> k = random_floats(static_cast<size_t>(nt * kv_heads * dim));
  const std::vector<float> v = random_floats(static_cast<size_t>(nt * kv_heads * dim));
  const std::vector<float> sinks = random_floats(static_cast<size_t>(heads));

  const uint32_t qt = s.dynamic(2, MINFER_DYN_TOKENS).floats({dim, heads, nt}, q);
  const uint32_t kt = s.dynamic(1, MINFER_DYN_TOKENS).floats({dim * kv_heads, nt}, k);
  const uint32_t vt = s.dynamic(2, MINFER_DYN_TOKENS).floats({dim, kv_heads, nt}, v);
  const uint32_t pt = s.dynamic(0, MINFER_DYN_TOKENS).ints({nt}, pos);
  const uint32_t st = s.dynamic(0, MINFER_DYN_TOKENS).input(MINFER_TYPE_I64, {nt}, slot.data());
  const uint32_t qs = s.ints({seqs + 1}, q_start);
  const uint32_t kl = s.dynamic(0, MINFER_DYN_SEQS).ints({seqs}, kv_len);
  const uint32_t bt = s.dynamic(1, MINFER_DYN_SEQS).ints({tables.max_pages, seqs}, tables.pages);
  const minfer_kv_desc desc = describe(c, tables.n_pages);
  const uint32_t kv = s.kv(desc);
  const uint32_t out = s.dynamic(1, MINFER_DYN_TOKENS).activation({dim * heads, nt}, true);
  const minfer_kv_params store{sizeof store, kv};
  s.node(MINFER_OP_KV_STORE, {kt, vt, st}, MINFER_NONE, &store, sizeof store);
  minfer_attention_params p{};
  p.struct_size = sizeof p;
  p.kv = kv;
  p.n_head = c.n_head;
  p.window = c.window;
  p.scale = 1.f / std::sqrt(static_cast<float>(c.dim));
  p.soft_cap = c.soft_cap;
  p.causal = c.causal;
  std::vector<uint32_t> src{qt, pt, qs, kl, bt};
  if (c.sinks) src.push_back(s.plain(sinks));
  s.node(MINFER_OP_ATTENTION, src, out, &p, sizeof p);
  s.materialise();

  // History through kv_import_page; what the pages then hold through kv_export_page.
  const minfer_plugin& table = Gpu::instance()->table();
  const auto page_floats = static_cast<size_t>(c.page * c.n_head_kv * c.dim * 2);
  for (uint32_t page = 0; page < tables.n_pages; ++page) {
    const std::vector<float> values = random_floats(page_floats);
    MINFER_OK_OR_FAIL(table.kv_import_page(Gpu::instance()->queue(), &desc, s.region(0), page,
                                           values.data(), error));
  }
  s.compute(gates);
  if (::testing::Test::HasFatalFailure()) return;
  std::vector<std::vector<float>> pages(tables.n_pages, std::vector<float>(page_floats));
  for (uint32_t page = 0; page < tables.n_pages; ++page) {
    MINFER_OK_OR_FAIL(table.kv_export_page(Gpu::instance()->queue(), &desc, s.region(0), page,
                                           pages[page].data(), error));
  }
  const auto held = [&](size_t seq, int32_t j, bool value, int64_t head, int64_t i) {
    const auto page = static_cast<size_t>(tables.pages[seq * static_cast<size_t>(tables.max_pages) +
                                                       static_cast<size_t>(j) / c.page]);
    const size_t place = static_cast<size_t>(j) % c.page;
    const size_t row = place * c.n_head_kv + static_cast<size_t>(head);
    return double{
        pages[page][(value ? page_floats / 2 : 0) + row * c.dim + static_cast<size_t>(i)]};
  };

  // The step's keys and values arrived, rounded as the type rounds.
  const double store_limit = c.type == MINFER_TYPE_F32   ? 0
                             : c.type == MINFER_TYPE_F16 ? 1e-3
                                                         : 1e-2;
  std::vector<double> stored;
  std::vector<float> given;
  for (size_t seq = 0, tok = 0; seq < c.before.size(); ++seq) {
    for (int32_t n = 0; n < c.tokens[seq]; ++n, ++tok) {
      for (int64_t i = 0; i < kv_heads * dim; ++i) {
        stored.push_back(held(seq, pos[tok], false, i / dim, i % dim));
        given.push_back(k[tok * static_cast<size_t>(kv_heads * dim) + static_cast<size_t>(i)]);
        stored.push_back(held(seq, pos[tok], true, i / dim, i % dim));
        given.push_back(v[tok * static_cast<size_t>(kv_heads * dim) + static_cast<size_t>(i)]);
      }
    }
  }
  EXPECT_LE(relative_error(given, stored), store_limit);

  std::vector<double> expected(static_cast<size_t>(nt * heads * dim), 0.0);
  for (size_t seq = 0, tok = 0; seq < c.before.size(); ++seq) {
    for (int32_t n = 0; n < c.tokens[seq]; ++n, ++tok) {
      const int32_t last = c.causal ? std::min(kv_len[seq], pos[tok] + 1) : kv_len[seq];
      const int32_t first =
          c.window ? std::max(0, pos[tok] - static_cast<int32_t>(c.window) + 1) : 0;
      for (int64_t h = 0; h < heads; ++h) {
        const int64_t g = h / (heads / kv_heads);
        const size_t at = (tok * static_cast<size_t>(heads) + static_cast<size_t>(h)) * c.dim;
        std::vector<double> score;
        for (int32_t j = first; j < last; ++j) {
          double dot = 0;
          for (int64_t i = 0; i < dim; ++i) {
            dot += double{q[at + static_cast<size_t>(i)]} * held(seq, j, false, g, i);
          }
          dot *= double{p.scale};
          score.push_back(c.soft_cap > 0 ? c.soft_cap * std::tanh(dot / c.soft_cap) : dot);
        }
        double largest = c.sinks ? double{sinks[static_cast<size_t>(h)]} : -1e300;
        for (double x : score) largest = std::max(largest, x);
        double sum = c.sinks ? std::exp(sinks[static_cast<size_t>(h)] - largest) : 0.0;
        for (double& x : score) sum += x = std::exp(x - largest);
        for (size_t j = 0; j < score.size(); ++j) {
          for (int64_t i = 0; i < dim; ++i) {
            expected[at + static_cast<size_t>(i)] +=
                score[j] / sum * held(seq, first + static_cast<int32_t>(j), true, g, i);
          }
        }
      }
    }
  }
  const bool halves = s.kernel(1).find("tiled") != std::string::npos ||
                      s.kernel(1).find("wgmma") != std::string::npos;
  const double limit = halves ? 1e-3 : 1e-5;
  EXPECT_LT(relative_error(s.read(out), expected), limit)
      << s.kernel(1) << " type " << c.type << " dim " << c.dim << " heads " << c.n_head << "/"
      << c.n_head_kv << " page " << c.page << " window " << c.window;
}

constexpr uint32_t kKvTypes[] = {MINFER_TYPE_F32, MINFER_TYPE_F16, MINFER_TYPE_Q8_0};

TEST(AttentionTest, HeadSizesTypesAndPages) {
  MINFER_REQUIRE_GPU();
  for (uint32_t type : kKvTypes) {
    for (uint32_t dim : {64u, 80u, 96u, 128u, 256u, 512u}) {
      if (type == MINFER_TYPE_Q8_0 && dim == 80) continue;
      Shape c;
      c.type = type;
      c.dim = dim;
      c.page = dim == 128 ? 256 : 32;
      c.before = {300};
      c.tokens = {1};
      check_attention(c);
      c.before = {21};
      c.tokens = {70};
      check_attention(c);
      check_attention(c, {{Gate::kNoTiledAttention, 1}});
    }
  }
}

TEST(AttentionTest, GroupsOfQueryHeads) {
  MINFER_REQUIRE_GPU();
  for (const auto& [heads, kv] :
       {std::pair{4u, 4u}, {4u, 1u}, {14u, 2u}, {28u, 4u}, {16u, 1u}, {9u, 3u}, {64u, 1u}}) {
    for (uint32_t type : kKvTypes) {
      Shape c;
      c.type = type;
      c.n_head = heads;
      c.n_head_kv = kv;
      c.before = {200};
      c.tokens = {1};
      check_attention(c);
      c.before = {0};
      c.tokens = {33};
      check_attention(c);
    }
  }
}

TEST(AttentionTest, WindowsCapsSinksAndFullVisibility) {
  MINFER_REQUIRE_GPU();
  for (uint32_t type : kKvTypes) {
    for (int32_t tokens : {1, 50}) {
      for (uint32_t variant = 0; variant < 5; ++variant) {
        Shape c;
        c.type = type;
        c.before = {150};
        c.tokens = {tokens};
        c.window = variant == 1 || variant == 4 ? 40 : 0;
        c.soft_cap = variant == 2 || variant == 4 ? 0.8f : 0.f;
        c.sinks = variant == 3 || variant == 4;
        c.causal = variant != 0;
        check_attention(c);
      }
    }
  }
}

TEST(AttentionTest, ManySequencesOfDifferentLengths) {
  MINFER_REQUIRE_GPU();
  for (uint32_t type : kKvTypes) {
    Shape c;
    c.type = type;
    c.padding = 3;
    c.before = {0, 1000, 15, 16, 400};
    c.tokens = {1, 1, 1, 1, 1};
    check_attention(c);
    c.tokens = {20, 1, 17, 64, 2};
    check_attention(c);
    check_attention(c, {{Gate::kNoTiledAttention, 1}});
    c.before = {4000};
    c.tokens = {2};
    check_attention(c);
    check_attention(c, {{Gate::kNoSplitKv, 1}});
  }
}

/// With the kernel that the device prefers for prefill, and with the one for older devices.
void check_prefill(const Shape& c) {
  check_attention(c);
  check_attention(c, {{Gate::kNoHopperAttention, 1}});
}

TEST(AttentionTest, PrefillOfRaggedSequences) {
  MINFER_REQUIRE_GPU();
  for (uint32_t dim : {64u, 80u, 96u, 128u, 256u}) {
    for (uint32_t page : {16u, 64u, 256u}) {
      Shape c;
      c.dim = dim;
      c.page = page;
      c.n_head = 7;
      c.n_head_kv = 1;
      c.before = {0, 0, 300};
      c.tokens = {150, 1, 45};
      check_attention(c);
    }
  }
}

TEST(AttentionTest, PrefillSeesWhatMasksAllow) {
  MINFER_REQUIRE_GPU();
  for (uint32_t dim : {64u, 128u}) {
    for (uint32_t variant = 0; variant < 7; ++variant) {
      Shape c;
      c.dim = dim;
      c.before = {150};
      c.tokens = {290};  // tiles of positions seen by all rows, by some, by none
      c.window = variant == 1 || variant == 4 ? 40 : variant == 5 || variant == 6 ? 200 : 0;
      c.soft_cap = variant == 2 || variant == 4 ? 0.8f : variant == 6 ? 30.f : 0.f;
      c.sinks = variant == 3 || variant == 4;
      c.causal = variant != 0 && variant != 6;
      check_prefill(c);
    }
  }
}

// Few rows that see much: cut along the positions, and joined.
TEST(AttentionTest, PrefillAtDepth) {
  MINFER_REQUIRE_GPU();
  Shape c;
  c.page = 64;
  c.n_head = 8;
  c.before = {5000};
  c.tokens = {24};
  check_prefill(c);
  c.dim = 128;
  c.sinks = true;
  c.before = {3000, 0, 1700};
  c.tokens = {20, 30, 16};
  check_prefill(c);
  c.window = 1500;
  check_prefill(c);
}

}  // namespace
}  // namespace minfer_cuda::test
