// The engine: a model placed on devices, with sequences that are stepped together.
//
// Engine is used by one thread at a time. Everything is allocated by create(); steps allocate
// nothing. Errors of a step leave the sequences as they were before it, unless the device was lost.
//
// From a file to an answer (examples/engine is this as a program, with its CMakeLists.txt):
//
//   MINFER_ASSIGN(auto file, GgufFile::open("model.gguf"));
//   MINFER_ASSIGN(auto model, Model::create(file));
//   MINFER_ASSIGN(auto tokenizer, Tokenizer::create(*file));
//   MINFER_ASSIGN(auto host, PluginHost::load({}));            // must outlive the engine
//   MINFER_TRY(host->gates().resolve({}));                     // defaults and the environment
//   MINFER_TRY(host->enumerate());
//   MINFER_ASSIGN(auto engine, Engine::create(model, *host, {}));
//   MINFER_ASSIGN(auto sequence, engine->sequence_new());
//   MINFER_ASSIGN(auto first, engine->prefill(sequence, tokenizer->encode("Once", false, true)));
//   MINFER_ASSIGN(auto rest, engine->decode_greedy(sequence, first.arg_max[0], 31,
//                                                  tokenizer->end_tokens(), {}));
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "minfer/model.h"
#include "minfer/plugin_host.h"
#include "minfer/result.h"
#include "minfer/tokenizer.h"
#include "minfer/trace.h"

namespace minfer {

/// Most positions of one sequence.
inline constexpr uint32_t kMaxContext = 1u << 24;

struct EngineOptions {
  /// Devices in order of preference ("cuda:0", "cpu"); empty: all usable ones, best score first.
  /// With `strict`, a named device that is unusable is an error; otherwise it is passed over in one
  /// log line.
  std::vector<std::string> devices;
  bool strict_devices = true;
  /// Layers to keep on the first device where there are others, counted from the last one (any: the
  /// head too; all: the embedding too); -1: as many as its memory holds. With one device named that
  /// is not the CPU, the CPU takes the rest.
  int32_t gpu_layers = -1;
  /// Positions of one sequence, kMaxContext at most; 0: the model's trained context.
  uint32_t context = 4096;
  uint32_t max_sequences = 1;
  uint32_t max_step_tokens = 512;   ///< largest batch of tokens in a step (longer prompts are cut)
  uint32_t max_step_outputs = 0;    ///< output rows in a step; 0: max_sequences
  uint32_t kv_pages = 0;            ///< per full-attention group; 0: context for every sequence
  uint32_t kv_page_tokens = 0;      ///< positions of a page; 0: up to 64, as the devices allow
  std::optional<uint32_t> kv_type;  ///< MINFER_TYPE_F32, _F16, _Q8_0; unset: MINFER_CACHE_TYPE gate
  std::function<void(uint64_t done, uint64_t total)> on_progress;  ///< bytes of weights imported
  /// Receives what the engine does: plans, loading, steps, splits, copies and, while timing is on,
  /// nodes. May be null; outlives the engine.
  Trace* trace = nullptr;
};

/// Where a unit went, and why not elsewhere.
struct UnitPlacement {
  Unit unit;
  size_t device = 0;          ///< index into Engine::devices()
  uint64_t weight_bytes = 0;  ///< as held on the device
  uint64_t kv_bytes = 0;
  std::string passed_over;  ///< first reason of each better device that refused; may be empty
};

/// Upper bounds per device, known before any weight is read.
struct MemoryPlan {
  struct Entry {
    std::string device;
    uint64_t weights = 0;
    uint64_t kv = 0;
    uint64_t arena = 0;  ///< escaping tensors
    uint64_t workspace = 0;
    uint64_t staging = 0;    ///< host memory for inputs and read-back
    uint64_t overhead = 0;   ///< the driver's, estimated
    uint64_t available = 0;  ///< free on the device; 0: unknown
    uint64_t total() const { return weights + kv + arena + workspace + overhead; }
  };
  std::vector<Entry> devices;
};

/// A kernel that a node runs, for --explain.
struct NodePlacement {
  std::string node;
  std::string op;
  std::string unit;
  std::string device;
  std::string kernel;
  std::string why;
};

struct OpTiming {
  std::string op;
  std::string kernel;
  std::string device;
  uint64_t calls = 0;
  double seconds = 0;
  uint64_t bytes = 0;
};

using SequenceId = uint32_t;

/// One sequence's part of a step.
struct StepEntry {
  SequenceId sequence = 0;
  std::span<const TokenId> tokens;  ///< appended at the sequence's end, in order
  bool want_logits = false;         ///< logits and arg-max of the last token
  bool want_all_logits = false;     ///< of every token (needs max_step_outputs)
};

/// Rows in order of the entries that wanted them. Spans live until the next step.
struct StepResult {
  std::span<const float> logits;  ///< rows * vocab; empty when `logits` was not asked for
  std::span<const TokenId> arg_max;
  uint32_t rows = 0;
  std::span<const float> row(uint32_t i, uint32_t vocab) const {
    return logits.subspan(static_cast<size_t>(i) * vocab, vocab);
  }
};

struct StepOptions {
  bool read_logits = true;  ///< false: only arg_max comes back (greedy)
};

class Engine {
 public:
  /// Placement and memory plan from metadata alone (--dry-run).
  static Result<std::unique_ptr<Engine>> plan(std::shared_ptr<const Model> model, PluginHost& host,
                                              const EngineOptions& options);
  /// plan() and load(): ready to step.
  static Result<std::unique_ptr<Engine>> create(std::shared_ptr<const Model> model,
                                                PluginHost& host, const EngineOptions& options);
  virtual ~Engine() = default;
  /// Imports weights, allocates regions, arenas and staging, compiles and binds what decode needs.
  virtual Result<void> load() = 0;

  virtual const Model& model() const = 0;
  virtual const EngineOptions& options() const = 0;  ///< with defaults filled in
  virtual std::span<const std::shared_ptr<Device>> devices() const = 0;
  virtual std::span<const UnitPlacement> placement() const = 0;
  virtual const MemoryPlan& memory_plan() const = 0;
  /// Bytes held now per device, in the memory plan's terms (compare with it).
  virtual Result<MemoryPlan> measured_memory() = 0;
  /// Kernels of the plans for a step of `tokens` tokens.
  virtual Result<std::vector<NodePlacement>> explain(uint32_t tokens) = 0;
  /// The graph of a step of `tokens` tokens as DOT text, coloured by device.
  virtual Result<std::string> dot(uint32_t tokens) = 0;

  /// Takes over gates that changed in the host's registry since: plans for new values of gates of
  /// scope plan are compiled and bound (once per setting), values of scope run apply from the next
  /// step. Gates of scope load need a new engine.
  virtual Result<void> refresh_gates() = 0;

  // Sequences. Ids are small and reused. All fail with kUsage on an unknown id.
  virtual Result<SequenceId> sequence_new() = 0;
  /// A sequence with the same positions; pages are shared until one side writes (copy-on-write).
  virtual Result<SequenceId> sequence_fork(SequenceId from) = 0;
  /// Forgets everything from position `length` on.
  virtual Result<void> sequence_truncate(SequenceId id, uint32_t length) = 0;
  virtual Result<void> sequence_free(SequenceId id) = 0;
  virtual Result<uint32_t> sequence_length(SequenceId id) const = 0;
  virtual uint32_t free_pages(uint32_t group) const = 0;

  /// One forward of a batch of tokens from one or many sequences: mixed prefill and decode. Fails
  /// with kContext (both numbers) when a sequence or the page pool is full, kUsage when the batch
  /// is larger than max_step_tokens or asks for too many rows; nothing has changed then.
  virtual Result<StepResult> step(std::span<const StepEntry> entries,
                                  const StepOptions& options = {}) = 0;

  /// Feeds a prompt of any length in chunks of max_step_tokens, queued one behind the other, and
  /// returns the last row's result. Fails with kContext (both numbers) before the first chunk when
  /// it does not fit. A later failure leaves the sequence as it was, or, where layers with a
  /// sliding window have let go of what would be needed for that, empty.
  virtual Result<StepResult> prefill(SequenceId id, std::span<const TokenId> tokens,
                                     const StepOptions& options = {}) = 0;

  /// Greedy tokens of one sequence: feeds `first`, then each token it yields but the last. Where a
  /// step is one split, the next token is handed on inside the device and steps are queued ahead.
  /// Ends early after a token in `stop`, when `on_token` (may be empty) returns false, or, with at
  /// least one token made, when the context is full. The sequence grows by as many positions as
  /// tokens are returned; on failure, by as many as `on_token` has seen.
  virtual Result<std::vector<TokenId>> decode_greedy(
      SequenceId id, TokenId first, uint32_t n, std::span<const TokenId> stop,
      const std::function<bool(TokenId)>& on_token) = 0;

  /// Starts (or ends) timing of every node; read with op_timings(). Slower while on.
  virtual void set_timing(bool on) = 0;
  virtual std::vector<OpTiming> op_timings() const = 0;
  /// Asks a running step to end early (safe from a signal handler's thread).
  virtual void cancel() = 0;
};

}  // namespace minfer
