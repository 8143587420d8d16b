// The list of architectures: one line each in registry.cpp.
#pragma once

#include <memory>

#include "minfer/model.h"

namespace minfer {

using ModelFactory = Result<std::shared_ptr<const Model>> (*)(std::shared_ptr<const GgufFile>);

Result<std::shared_ptr<const Model>> make_llama(std::shared_ptr<const GgufFile> file);
Result<std::shared_ptr<const Model>> make_qwen2(std::shared_ptr<const GgufFile> file);
Result<std::shared_ptr<const Model>> make_qwen3(std::shared_ptr<const GgufFile> file);
Result<std::shared_ptr<const Model>> make_gemma3(std::shared_ptr<const GgufFile> file);

}  // namespace minfer
