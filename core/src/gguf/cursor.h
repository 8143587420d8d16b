// A bounded read position in the bytes of a GGUF file, and the errors that reading can meet.
// Used by one thread at a time.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "gguf/printable.h"
#include "minfer/result.h"

namespace minfer {

class GgufCursor {
 public:
  /// `path` names the file in messages and must outlive the cursor, as must the bytes.
  GgufCursor(const uint8_t* data, uint64_t size, const std::string& path)
      : data_(data), size_(size), path_(path), where_(path) {}

  uint64_t position() const { return pos_; }
  uint64_t size() const { return size_; }
  uint64_t left() const { return size_ - pos_; }
  /// The bytes from here on, `left()` of them.
  const uint8_t* here() const { return data_ + pos_; }
  /// Moves on by `bytes`, which must be there.
  void skip(uint64_t bytes) { pos_ += bytes; }

  /// The next value of a fixed size; `what` names it when the file is too short.
  template <class T>
  Result<T> read(std::string_view what) {
    if (left() < sizeof(T)) return cut_short(what, sizeof(T));
    T value;
    std::memcpy(&value, here(), sizeof(T));
    skip(sizeof(T));
    return value;
  }

  /// A 64-bit length and that many bytes, as a view of the file.
  Result<std::string_view> read_string(std::string_view what) {
    MINFER_ASSIGN(const uint64_t length, read<uint64_t>(what));
    if (length > left()) return cut_short(what, length);
    const std::string_view text(reinterpret_cast<const char*>(here()), length);
    skip(length);
    return text;
  }

  /// From now on errors say "PATH: KIND 'NAME'".
  void enter(std::string_view kind, std::string_view name) {
    where_ = fmt::format("{}: {} {}", path_, kind, printable(name));
  }
  /// From now on errors say "PATH: KIND i of n", with i counted from 1.
  void enter_unnamed(std::string_view kind, uint64_t index, uint64_t count) {
    where_ = fmt::format("{}: {} {} of {}", path_, kind, index + 1, count);
  }
  /// From now on errors say "PATH".
  void leave() { where_ = path_; }

  tl::unexpected<Error> bad(std::string what,
                            std::string hint = "download or convert the file again") const {
    return fail(ErrorCode::kBadModel, std::move(what), where_, std::move(hint));
  }
  tl::unexpected<Error> unsupported(std::string what, std::string hint) const {
    return fail(ErrorCode::kUnsupported, std::move(what), where_, std::move(hint));
  }
  /// `what` needs `need` bytes from here, which is more than are left.
  tl::unexpected<Error> cut_short(std::string_view what, uint64_t need) const {
    return bad(
        fmt::format("the file is cut short in {}: {} bytes are needed at byte {}, {} are left, "
                    "at least {} bytes are missing",
                    what, need, pos_, left(), need - left()),
        "the download is incomplete, or a length is damaged; download the file again");
  }

 private:
  const uint8_t* data_;
  uint64_t size_;
  uint64_t pos_ = 0;
  const std::string& path_;
  std::string where_;
};

}  // namespace minfer
