// Continues a text with a GGUF model, greedily: the engine's public API from file to answer.
// usage: minfer-engine-example MODEL.gguf TEXT [TOKENS] [DEVICE]
#include <minfer/engine.h>

#include <cstdio>
#include <cstdlib>

static minfer::Result<void> run(const char* path, const char* text, uint32_t n,
                                const char* device) {
  MINFER_ASSIGN(auto file, minfer::GgufFile::open(path));
  MINFER_ASSIGN(auto model, minfer::Model::create(file));
  MINFER_ASSIGN(auto tokenizer, minfer::Tokenizer::create(*file));
  MINFER_ASSIGN(auto host, minfer::PluginHost::load({}));
  MINFER_TRY(host->gates().resolve({}));
  MINFER_TRY(host->enumerate());
  minfer::EngineOptions options;
  if (device) options.devices = {device};
  MINFER_ASSIGN(auto engine, minfer::Engine::create(model, *host, options));

  MINFER_ASSIGN(const auto sequence, engine->sequence_new());
  const auto prompt = tokenizer->encode(text, /*parse_special=*/false, /*add_special=*/true);
  MINFER_ASSIGN(const auto first, engine->prefill(sequence, prompt, {.read_logits = false}));
  minfer::StreamDecoder decoder(tokenizer);
  const auto print = [&](minfer::TokenId id) {
    return std::printf("%s", decoder.push(id).c_str()) >= 0 && std::fflush(stdout) == 0;
  };
  const minfer::TokenId start = first.arg_max[0];
  print(start);
  MINFER_TRY(engine->decode_greedy(sequence, start, n - 1, tokenizer->end_tokens(), print));
  std::printf("%s\n", decoder.finish().c_str());
  return {};
}

int main(int argc, char** argv) {
  const int tokens = argc > 3 ? std::atoi(argv[3]) : 32;
  if (argc < 3 || tokens < 2)
    return std::fprintf(stderr, "usage: MODEL TEXT [TOKENS] [DEVICE]\n"), 2;
  const auto done =
      run(argv[1], argv[2], static_cast<uint32_t>(tokens), argc > 4 ? argv[4] : nullptr);
  if (!done) std::fprintf(stderr, "error: %s\n", done.error().message().c_str());
  return done ? 0 : minfer::exit_status(done.error().code);
}
