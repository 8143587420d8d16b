// Fuzzes tokenizer metadata: any vocabulary gives a tokenizer or an error; ids are in range, and
// text of messages never becomes a control token.
#include "../unit/tokenizer/random_metadata.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  minfer::test::ByteReader in({reinterpret_cast<const char*>(data), size});
  const minfer::test::MetadataFile file = minfer::test::metadata_from(in);
  minfer::test::exercise(file, in.rest());
  return 0;
}
