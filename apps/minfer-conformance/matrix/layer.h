// A layer of a small llama with two heads of 32, and its head: most neighbours that plugins fuse.
//
// One object serves one thread; its split may be run on several sessions.
#pragma once

#include "cases.h"

namespace conformance {

class Layer {
 public:
  static constexpr int64_t kDim = 64, kFf = 160, kVocab = 100;
  static constexpr uint32_t kTokens = 9, kSeqs = 2, kOuts = 3;

  /// `type`: of the matrices. `model`: handle that its weights are imported under.
  explicit Layer(std::mt19937_64& rng, uint32_t type = MINFER_TYPE_F32, uint64_t model = 1);

  /// Inputs of a step that fills part of the capacity: kStep.
  void fill(Session& session) const;
  static constexpr Counts kStep{7, 2, 3, 5};

  Split split{kTokens, kSeqs, kOuts, 2};
  uint32_t tokens, pos, slot, q_start, kv_len, table, out_rows, logits, best;

 private:
  uint32_t add_norm(uint32_t x, const Weight& w, Dynamic rows, int64_t n);
  uint32_t multiply(const Weight& w, uint32_t x, Dynamic rows, int64_t n,
                    const Weight* bias = nullptr);
  uint32_t heads_of(uint32_t x);
  uint32_t turn(uint32_t x);
  uint32_t attention(uint32_t x);
  uint32_t ffn(uint32_t x);
  uint32_t pick(uint32_t x);
  void add_inputs();
  void build();

  Weight embedding_, norm1_, norm2_, norm3_, q_, k_, v_, o_, bias_, gate_, up_, down_;
};

}  // namespace conformance
