// The query function: a host may call it to list plugins, on a machine without the hardware, and
// again later; so it starts nothing and always says the same.
#include <dlfcn.h>

#include <cstring>

#include "checks.h"
#include "process.h"

namespace conformance {
namespace {

/// A host table of another version: later fields after those known, or the first ones only.
struct LaterHost {
  minfer_host host;
  uint64_t later[4];
};

LaterHost later_host() {
  LaterHost later{};
  std::memset(&later, 0xee, sizeof later);
  later.host = host();
  later.host.struct_size = sizeof later;
  later.host.abi_minor = MINFER_ABI_MINOR + 1;
  return later;
}

std::vector<uint8_t> bytes_of(const minfer_plugin& table) {
  const auto* begin = reinterpret_cast<const uint8_t*>(&table);
  return {begin, begin + table.struct_size};
}

}  // namespace

void check_query(const Target& target) {
  void* library = dlopen(target.plugin.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return fail(dlerror());
  void* symbol = dlsym(library, MINFER_QUERY_SYMBOL);
  if (symbol == nullptr) return fail(dlerror());
  minfer_plugin_query_fn query;
  std::memcpy(&query, &symbol, sizeof query);

  const LaterHost later = later_host();
  const minfer_host* const hosts[] = {&host(), &host(), &later.host};
  const Holdings before = measure_holdings();
  std::vector<uint8_t> first;
  for (const minfer_host* one : hosts) {
    const minfer_plugin* table = nullptr;
    minfer_error error = {};
    require_ok(query(one, &table, &error), error, MINFER_QUERY_SYMBOL);
    if (!expect(table != nullptr, "the query returned no table")) return;
    if (first.empty()) first = bytes_of(*table);
    expect(bytes_of(*table) == first, "the query returned another table the second time");
  }
  const Holdings after = measure_holdings(before.threads);
  expect_equal(after.threads, before.threads, "threads after the query");
  expect_equal(after.files, before.files, "open files after the query");
  expect_equal(after.libraries, before.libraries, "loaded libraries after the query");
}

}  // namespace conformance
