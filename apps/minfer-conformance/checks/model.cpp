// A tiny llama through the whole engine: placement, import, KV pages, buckets, steps of several
// sequences. Logits are judged against float64; where this fails and the operators pass, look at
// how nodes are fused, at bindings and at copies.
#include "minfer/model.h"

#include <stdlib.h>

#include "../reference_llama.h"
#include "../tiny_models.h"
#include "checks.h"
#include "minfer/engine.h"

namespace conformance {
namespace {

namespace fs = std::filesystem;
using minfer::Engine;
using minfer::Result;
using minfer::StepEntry;
using minfer::TokenId;

constexpr double kTolerance = 1e-3;  // f32 weights, f32 cache; a device may round activations

/// A model file in a folder of its own, removed with this object.
class ModelFile {
 public:
  ModelFile() {
    std::string folder = (fs::temp_directory_path() / "minfer-conformance-XXXXXX").string();
    if (::mkdtemp(folder.data()) == nullptr) throw std::runtime_error("no temporary folder");
    folder_ = folder;
  }
  ~ModelFile() {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }
  ModelFile(const ModelFile&) = delete;
  ModelFile& operator=(const ModelFile&) = delete;
  fs::path path() const { return folder_ / "tiny-llama.gguf"; }

 private:
  fs::path folder_;
};

struct Loaded {
  std::unique_ptr<minfer::PluginHost> host;
  std::unique_ptr<Engine> engine;
};

Result<Loaded> open_model(const fs::path& path, const Target& target) {
  Loaded out;
  MINFER_TRY(minfer::testing::write_tiny_model(path, {.arch = "llama", .rope_freqs = {}}));
  MINFER_ASSIGN(out.host, minfer::PluginHost::load(
                              {.files = {target.plugin}, .search = false, .library_dir = {}}));
  MINFER_TRY(out.host->enumerate());
  MINFER_ASSIGN(auto file, minfer::GgufFile::open(path));
  MINFER_ASSIGN(auto model, minfer::Model::create(std::move(file)));
  minfer::EngineOptions options;
  options.devices = {fmt::format("{}:{}", out.host->plugins()[0].backend, target.device)};
  options.context = 128;
  options.kv_type = MINFER_TYPE_F32;
  options.max_sequences = 2;
  options.max_step_tokens = 32;
  options.max_step_outputs = 32;
  MINFER_ASSIGN(out.engine, Engine::create(std::move(model), *out.host, options));
  return out;
}

template <class T>
T must(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().message());
  return std::move(*result);
}

std::vector<TokenId> random_tokens(std::mt19937_64& rng, size_t n) {
  std::vector<TokenId> out(n);
  for (TokenId& token : out) token = static_cast<TokenId>(rng() % ReferenceLlama::kVocab);
  return out;
}

/// Feeds `tokens` in steps of these sizes and compares every row.
void feed(Engine& engine, const ReferenceLlama& reference, const std::vector<TokenId>& tokens,
          const std::vector<size_t>& sizes) {
  const auto expected = reference.logits({tokens.begin(), tokens.end()});
  const auto sequence = must(engine.sequence_new());
  size_t at = 0;
  for (const size_t size : sizes) {
    const StepEntry entry{sequence, std::span(tokens).subspan(at, size), true, true};
    const auto result = must(engine.step({&entry, 1}));
    if (!expect_equal(size_t{result.rows}, size, "rows of a step")) return;
    for (uint32_t r = 0; r < result.rows; ++r) {
      const auto row = result.row(r, ReferenceLlama::kVocab);
      const double error = relative_error({row.begin(), row.end()}, expected[at + r]);
      if (!expect_below(error, kTolerance, fmt::format("logits of token {}", at + r))) return;
    }
    at += size;
  }
  if (auto freed = engine.sequence_free(sequence); !freed) fail(freed.error().message());
}

/// Two sequences that decode in the same steps.
void decode_together(Engine& engine, const ReferenceLlama& reference, std::mt19937_64& rng) {
  const auto a = random_tokens(rng, 20), b = random_tokens(rng, 12);
  const auto expect_a = reference.logits({a.begin(), a.end()});
  const auto expect_b = reference.logits({b.begin(), b.end()});
  const auto first = must(engine.sequence_new()), second = must(engine.sequence_new());
  must(engine.prefill(first, std::span(a).first(8)));
  for (size_t i = 0; i < b.size(); ++i) {
    const StepEntry entries[] = {{first, std::span(a).subspan(8 + i, 1), true, false},
                                 {second, std::span(b).subspan(i, 1), true, false}};
    const auto result = must(engine.step(entries));
    const auto row = [&](uint32_t r) {
      const auto logits = result.row(r, ReferenceLlama::kVocab);
      return std::vector<float>(logits.begin(), logits.end());
    };
    const bool held = expect_below(relative_error(row(0), expect_a[8 + i]), kTolerance,
                                   fmt::format("step {}, the first sequence", i)) &&
                      expect_below(relative_error(row(1), expect_b[i]), kTolerance,
                                   fmt::format("step {}, the second sequence", i));
    if (!held) return;
  }
}

}  // namespace

void check_model(const Target& target) {
  const ModelFile file;
  auto loaded = open_model(file.path(), target);
  if (!loaded) {
    if (loaded.error().code == minfer::ErrorCode::kUnsupported)
      throw Refused(loaded.error().message());
    return fail(loaded.error().message());
  }
  Engine& engine = *loaded->engine;
  const ReferenceLlama reference;
  std::mt19937_64 rng = seeded_rng("model");
  variant("a prompt in one step", [&] { feed(engine, reference, random_tokens(rng, 31), {31}); });
  variant("a prompt in chunks, then single tokens", [&] {
    feed(engine, reference, random_tokens(rng, 40), {17, 1, 1, 5, 1, 1, 1, 13});
  });
  variant("two sequences together", [&] { decode_together(engine, reference, rng); });
  for (const auto& device : engine.devices()) listener().note("ran on " + device->info().id);
}

}  // namespace conformance
