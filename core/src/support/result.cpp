#include "minfer/result.h"

#include <fmt/format.h>

namespace minfer {

std::string_view error_code_name(ErrorCode code) {
  switch (code) {
    case ErrorCode::kUsage: return "usage";
    case ErrorCode::kConfig: return "config";
    case ErrorCode::kNotFound: return "not-found";
    case ErrorCode::kIo: return "io";
    case ErrorCode::kBadModel: return "bad-model";
    case ErrorCode::kUnsupported: return "unsupported";
    case ErrorCode::kPlugin: return "plugin";
    case ErrorCode::kOutOfMemory: return "out-of-memory";
    case ErrorCode::kDevice: return "device";
    case ErrorCode::kContext: return "context";
    case ErrorCode::kTemplate: return "template";
    case ErrorCode::kTokenizer: return "tokenizer";
    case ErrorCode::kCancelled: return "cancelled";
    case ErrorCode::kInternal: return "internal";
  }
  return "unknown";
}

int exit_status(ErrorCode code) { return static_cast<int>(code); }

std::string Error::message() const {
  std::string text = where.empty() ? what : fmt::format("{}: {}", where, what);
  if (!hint.empty()) text += fmt::format(" ({})", hint);
  return text;
}

}  // namespace minfer
