// Statuses of the ABI as Errors.
#include "plugin/abi_text.h"
#include "plugin/plugin.h"

namespace minfer {
namespace {

struct StatusMeaning {
  ErrorCode code;
  const char* words;
};

StatusMeaning meaning_of(minfer_status status) {
  switch (status) {
    case MINFER_UNSUPPORTED:
      return {ErrorCode::kUnsupported, "not supported"};
    case MINFER_INVALID:
      return {ErrorCode::kInternal, "an argument was refused as invalid"};
    case MINFER_OOM_HOST:
      return {ErrorCode::kOutOfMemory, "out of host memory"};
    case MINFER_OOM_DEVICE:
      return {ErrorCode::kOutOfMemory, "out of device memory"};
    case MINFER_DEVICE_LOST:
      return {ErrorCode::kDevice, "the device is lost"};
    case MINFER_INTERNAL:
      return {ErrorCode::kPlugin, "an internal fault of the plugin"};
    case MINFER_CANCELLED:
      return {ErrorCode::kCancelled, "cancelled"};
    case MINFER_VERSION:
      return {ErrorCode::kPlugin, "versions do not fit"};
    case MINFER_NOT_READY:
      return {ErrorCode::kPlugin, "status NOT_READY where it has no meaning"};
    default:
      return {ErrorCode::kPlugin, nullptr};
  }
}

}  // namespace

Error status_error(minfer_status status, const minfer_error& text, const std::string& where,
                   const char* function) {
  const StatusMeaning meaning = meaning_of(status);
  std::string what = meaning.words
                         ? fmt::format("{}: {}", function, meaning.words)
                         : fmt::format("{} returned the unknown status {}", function, status);
  if (const std::string said = clean_text(text.text, sizeof(text.text)); !said.empty())
    what += fmt::format(": {}", said);
  Error error{meaning.code, std::move(what), where, {}};
  if (status == MINFER_DEVICE_LOST)
    error.hint = "it cannot be used again before minfer is restarted";
  return error;
}

tl::unexpected<Error> contract_error(const std::string& where, const char* function,
                                     const std::string& found) {
  return fail(ErrorCode::kPlugin, fmt::format("{} broke the plugin contract: {}", function, found),
              where, "report this to the plugin's maker");
}

}  // namespace minfer
