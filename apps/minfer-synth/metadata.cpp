#include "metadata.h"

#include <fmt/format.h>

#include "byte_vocab.h"

namespace minfer::synth {

void add_metadata(GgufWriter& writer, const Shape& shape, const Quant& quant,
                  Vocabulary vocabulary) {
  const std::string arch(arch_name(shape.arch));
  const auto count = [&](std::string_view key, int64_t value) {
    writer.add(fmt::format("{}.{}", arch, key), static_cast<uint32_t>(value));
  };
  const auto number = [&](std::string_view key, float value) {
    writer.add(fmt::format("{}.{}", arch, key), value);
  };
  writer.add("general.architecture", arch);
  writer.add("general.name", fmt::format("synthetic {} {}", shape.name, quant.name()));
  writer.add("general.file_type", quant.file_type());
  writer.add("general.quantization_version", uint32_t{2});
  count("block_count", shape.n_layer);
  count("context_length", shape.context);
  count("embedding_length", shape.n_embd);
  count("feed_forward_length", shape.n_ff);
  count("attention.head_count", shape.n_head);
  count("attention.head_count_kv", shape.n_head_kv);
  count("attention.key_length", shape.head_dim);
  count("attention.value_length", shape.head_dim);
  number("attention.layer_norm_rms_epsilon", shape.rms_eps);
  number("rope.freq_base", shape.rope_base);
  if (shape.arch == Arch::kLlama) count("rope.dimension_count", shape.head_dim);
  if (shape.window > 0) count("attention.sliding_window", shape.window);
  if (shape.linear_scaling > 0) {
    writer.add(fmt::format("{}.rope.scaling.type", arch), "linear");
    number("rope.scaling.factor", shape.linear_scaling);
  }
  count("vocab_size", shape.n_vocab);
  if (vocabulary == Vocabulary::kBytes) {
    add_byte_vocab(writer, shape.n_vocab);
  } else {
    writer.add("tokenizer.ggml.model", "none");
  }
}

}  // namespace minfer::synth
