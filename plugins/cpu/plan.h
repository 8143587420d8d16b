// A compiled plan: steps that run one after the other on the thread pool, and where their tensors
// lie.
//
// A Step is one parallel section. A RowOp is the work of one node on a range of rows (tokens, as a
// rule); RowChain strings RowOps that need only their own rows into one section, so that a token's
// norm, conversion and so on happen while its data is in the nearest cache. Steps are made by
// compile.cpp and own what they need; running allocates nothing. One thread runs a plan at a time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "device.h"
#include "graph.h"
#include "vec_ops.h"
#include "weights.h"
#include "workspace.h"

namespace minfer_cpu {

/// What one run hands to its steps.
struct Run {
  uint8_t* const* data = nullptr;             ///< per tensor: where it starts (plain weights too)
  const WeightForm* const* packed = nullptr;  ///< per tensor: packed weights
  uint8_t* const* kv = nullptr;               ///< per KV region
  uint8_t* workspace = nullptr;
  uint64_t thread_scratch = 0;  ///< offset of the threads' scratch in the workspace
  uint64_t thread_scratch_bytes = 0;
  int64_t counts[4] = {};  ///< by Dyn; kNone unused
  unsigned threads = 1;

  int64_t count(Dyn dyn, int64_t otherwise) const {
    return dyn == Dyn::kNone ? otherwise : counts[static_cast<uint32_t>(dyn)];
  }
  uint8_t* scratch(unsigned thread) const {
    return workspace + thread_scratch + thread_scratch_bytes * thread;
  }
  float* floats(uint32_t tensor) const { return reinterpret_cast<float*>(data[tensor]); }
};

class Step {
 public:
  virtual ~Step() = default;
  /// Decides how the run's work is cut and returns the number of tasks; 0 when there is none.
  virtual int64_t prepare(const Run& run) = 0;
  virtual void task(const Run& run, int64_t index, unsigned thread) = 0;
  /// Bytes of per-thread scratch that tasks use.
  virtual uint64_t scratch_bytes() const { return 0; }
  /// Bytes of weights that the last run read; 0: not counted.
  virtual uint64_t bytes_read() const { return 0; }
  /// A timed run takes each part on its own; part p belongs to node_of(p).
  virtual uint32_t parts() const { return 1; }
  virtual void select_part(int64_t) {}
  virtual uint32_t node_of(uint32_t part) const = 0;
};

/// How many rows something has: a run's count, or a fixed number.
struct Rows {
  Dyn dyn = Dyn::kNone;
  int64_t fixed = 1;
  bool operator==(const Rows& other) const {
    return dyn == other.dyn && (dyn != Dyn::kNone || fixed == other.fixed);
  }
};

class RowOp {
 public:
  virtual ~RowOp() = default;
  virtual void rows(const Run& run, int64_t r0, int64_t r1, unsigned thread) const = 0;
  virtual uint64_t scratch_bytes() const { return 0; }
};

/// Consecutive RowOps over the same rows, in one section.
class RowChain final : public Step {
 public:
  explicit RowChain(Rows rows) : rows_(rows) {}

  /// `row_cost`: about how many elements the op touches per row.
  void append(std::unique_ptr<RowOp> op, uint32_t node, int64_t row_cost);
  const Rows& rows() const { return rows_; }

  int64_t prepare(const Run& run) override;
  void task(const Run& run, int64_t index, unsigned thread) override;
  uint64_t scratch_bytes() const override;
  uint32_t parts() const override { return static_cast<uint32_t>(links_.size()); }
  void select_part(int64_t part) override { part_ = part; }
  uint32_t node_of(uint32_t part) const override { return links_[part].node; }

 private:
  struct Link {
    std::unique_ptr<RowOp> op;
    uint32_t node;
  };
  std::vector<Link> links_;
  Rows rows_;
  int64_t row_cost_ = 0;
  int64_t part_ = -1;  // of a timed run; -1: all
  int64_t n_rows_ = 0;
  int64_t rows_per_task_ = 1;
};

struct Activation;
struct RopeTable;

/// The steps during which something holds a value.
struct Lifetime {
  uint32_t first = MINFER_NONE;
  uint32_t last = 0;
  bool used = false;
  bool written = false;
};

/// An input of a node whose values are indices: rows of a table in [0, limit), or slots below
/// `limit` times the pages of region `kv`, -1 allowed.
struct IndexCheck {
  uint32_t node;
  uint32_t list;
  int64_t limit;
  uint32_t kv;
  Dyn dyn;
};

}  // namespace minfer_cpu

/// The ABI's plan.
struct minfer_plan {
  minfer_device* device = nullptr;
  minfer_cpu::Graph graph;
  minfer_cpu::Isa isa = minfer_cpu::Isa::kScalar;
  // What steps refer to, before the steps.
  std::vector<std::unique_ptr<minfer_cpu::Activation>> activations;
  std::vector<std::unique_ptr<minfer_cpu::RopeTable>> tables;
  std::vector<std::unique_ptr<minfer_cpu::Step>> steps;
  std::vector<minfer_node_report> reports;  // per node

  minfer_plan();
  ~minfer_plan();

  // Placement, from compile.
  std::vector<minfer_cpu::Lifetime> life;  // per tensor
  std::vector<uint64_t> offsets;           // per tensor that owns workspace memory
  std::vector<uint32_t> in_workspace;      // those tensors
  std::vector<uint32_t> bound;             // tensors that bindings must name
  std::vector<uint32_t> zero_tails;        // escaping tensors with rows past the valid count
  std::vector<uint32_t> plain, packed;     // weights by the form that is read
  std::vector<const minfer_cpu::MatmulKernel*> kernels;  // per tensor in `packed`, else NULL
  uint64_t thread_scratch = 0, thread_scratch_bytes = 0;
  uint64_t workspace_bytes = 0;
  std::vector<minfer_cpu::IndexCheck> index_checks;
  std::vector<uint32_t> table_checks;  // ATTENTION nodes whose page tables are checked

  // From bind.
  bool is_bound = false;
  std::vector<uint8_t*> data;
  std::vector<const minfer_cpu::WeightForm*> forms;
  std::vector<minfer_cpu::FormRef> owned_forms;
  std::vector<uint8_t*> kv;
  std::vector<int64_t> kv_pages;
  uint8_t* workspace = nullptr;

  // Of the last timed run.
  std::vector<minfer_node_time> times;
  bool has_times = false;
};

namespace minfer_cpu {

/// Compiles a graph that check_graph accepted.
std::unique_ptr<minfer_plan> compile_plan(minfer_device& device, Graph graph, const Gates& gates);
void bind_plan(minfer_plan& plan, const minfer_bindings* bindings);
void run_plan(minfer_plan& plan, minfer_queue& queue, const minfer_run_args* args);

}  // namespace minfer_cpu
