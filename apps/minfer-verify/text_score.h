// The gate on real text: how probable a model finds it on one side and on the other.
//
// The text is cut into windows; each is read from an empty cache, with every token's logits. The
// score is the mean over all tokens but each window's first of log softmax(logits)[next token], in
// float64. Rounding moves single tokens both ways and hardly moves the mean; a wrong scale, mask or
// table does.
#pragma once

#include "sequences.h"

namespace minfer::verify {

/// Tokens of the text, options.text_tokens at most. kUsage when the model has no vocabulary or the
/// text has fewer than two tokens.
Result<std::vector<TokenId>> text_tokens(const Model& model, const std::string& text,
                                         const Options& options);

/// Scores `tokens` on both sides, one after the other, so that one engine is held at a time. Fails
/// the gate when the means differ by more than options.text_tolerance of the reference's.
Result<RowsCheck> check_text(Side& reference, Side& candidate, const std::vector<TokenId>& tokens,
                             const Options& options);

}  // namespace minfer::verify
