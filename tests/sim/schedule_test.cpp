// A random schedule of many sequences gives each of them what it gets alone: mixed chunked prefill
// and decode, forks with copy-on-write, cuts, evictions, on every placement.
#include <algorithm>
#include <random>

#include "sim_fixture.h"

namespace minfer::testing {
namespace {

constexpr double kTolerance = 1e-4;  // f32 weights and cache: only the order of sums differs

struct Case {
  Layout layout;
  std::string arch;
};
void PrintTo(const Case& c, std::ostream* out) {
  *out << c.arch << " on " << c.layout.name;
}

std::vector<Case> cases() {
  std::vector<Case> out;
  for (const Layout& layout : all_layouts())
    for (const char* arch : {"llama", "gemma3"}) out.push_back({layout, arch});
  return out;
}

class Schedule : public SimTest, public ::testing::WithParamInterface<Case> {
 protected:
  using Live = std::map<SequenceId, std::vector<TokenId>>;

  void run(uint32_t seed, int actions);
  void step_some();
  void check_rows(const std::vector<StepEntry>& entries, const StepResult& result);
  SequenceId any() {
    auto it = live_.begin();
    std::advance(it, random_() % live_.size());
    return it->first;
  }
  TokenId next_token(SequenceId id) {
    // Mostly what the model said last, as a decoder would.
    const auto it = said_.find(id);
    if (it != said_.end() && random_() % 4) return it->second;
    return static_cast<TokenId>(random_() % 256);
  }

  std::mt19937 random_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Alone> alone_;
  Live live_;
  std::map<SequenceId, TokenId> said_;
  int rows_checked_ = 0;
};

void Schedule::check_rows(const std::vector<StepEntry>& entries, const StepResult& result) {
  const uint32_t vocab = engine_->model().hparams().n_vocab;
  uint32_t row = 0;
  for (const StepEntry& entry : entries) {
    const size_t n = entry.tokens.size();
    const std::vector<TokenId>& all = live_[entry.sequence];
    for (size_t i = entry.want_all_logits ? 0 : n - 1;
         i < n && (entry.want_all_logits || entry.want_logits); ++i) {
      const std::vector<TokenId> prefix(all.begin(), all.end() - static_cast<ptrdiff_t>(n - 1 - i));
      const auto expected = alone_->logits(prefix);
      ASSERT_LT(row, result.rows);
      ASSERT_LT(relative_error(result.row(row, vocab), expected), kTolerance)
          << "sequence " << entry.sequence << " at position " << prefix.size() - 1;
      ASSERT_TRUE(is_arg_max(expected, result.arg_max[row]));
      said_[entry.sequence] = result.arg_max[row];
      ++row;
      ++rows_checked_;
    }
  }
  ASSERT_EQ(row, result.rows);
}

void Schedule::step_some() {
  std::vector<StepEntry> entries;
  std::vector<std::vector<TokenId>> tokens;
  uint32_t left = engine_->options().max_step_tokens;
  std::vector<SequenceId> ids;
  for (const auto& [id, held] : live_) ids.push_back(id);
  std::shuffle(ids.begin(), ids.end(), random_);
  for (const SequenceId id : ids) {
    const auto room = std::min<uint32_t>(left, 100 - std::min<size_t>(100, live_[id].size()));
    if (room == 0 || random_() % 3 == 0) continue;
    const uint32_t n = random_() % 2 ? 1 : 1 + random_() % room;
    left -= n;
    std::vector<TokenId> chunk{next_token(id)};
    while (chunk.size() < n) chunk.push_back(static_cast<TokenId>(random_() % 256));
    tokens.push_back(std::move(chunk));
    entries.push_back({id, {}, random_() % 2 == 0, random_() % 8 == 0});
  }
  if (entries.empty()) return;
  for (size_t i = 0; i < entries.size(); ++i) {
    entries[i].tokens = tokens[i];
    auto& held = live_[entries[i].sequence];
    held.insert(held.end(), tokens[i].begin(), tokens[i].end());
    said_.erase(entries[i].sequence);
  }
  const auto result = engine_->step(entries);
  ASSERT_TRUE(result) << result.error().message();
  check_rows(entries, *result);
}

void Schedule::run(uint32_t seed, int actions) {
  random_.seed(seed);
  for (int i = 0; i < actions && !HasFatalFailure(); ++i) {
    const uint32_t what = random_() % 12;
    if (live_.empty() || what == 0) {
      if (const auto id = engine_->sequence_new()) live_[*id] = {};
    } else if (what == 1) {
      const SequenceId from = any();
      if (const auto id = engine_->sequence_fork(from)) live_[*id] = live_[from];
    } else if (what == 2) {
      const SequenceId id = any();
      const auto length = static_cast<uint32_t>(random_() % (live_[id].size() + 1));
      if (engine_->sequence_truncate(id, length)) {
        live_[id].resize(length);
        said_.erase(id);
      }
    } else if (what == 3 && live_.size() > 1) {  // evicted; its place goes to another
      const SequenceId id = any();
      ASSERT_TRUE(engine_->sequence_free(id));
      live_.erase(id);
      said_.erase(id);
    } else {
      step_some();
    }
    for (const auto& [id, held] : live_) ASSERT_EQ(*engine_->sequence_length(id), held.size());
  }
}

TEST_P(Schedule, EachSequenceGetsWhatItGetsAlone) {
  EngineOptions alone = small_options();
  alone.max_sequences = 1;
  alone.max_step_tokens = 128;
  alone_ = std::make_unique<Alone>(must_open(GetParam().arch, {"cpu", {"cpu"}}, alone));
  engine_ = must_open(GetParam().arch, GetParam().layout);
  run(7, 150);
  EXPECT_GT(rows_checked_, 80);
  if (GetParam().layout.devices[0] == "sim:0") {
    EXPECT_GT(sim_stats().page_copies, 0u);
  }
  engine_.reset();
  alone_.reset();
}

INSTANTIATE_TEST_SUITE_P(Placements, Schedule, ::testing::ValuesIn(cases()),
                         [](const auto& tested) {
                           return tested.param.arch + "_" + tested.param.layout.name;
                         });

}  // namespace
}  // namespace minfer::testing
