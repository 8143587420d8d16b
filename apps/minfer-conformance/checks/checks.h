// The functions behind the rows of check_table.cpp, one file each. docs/conformance.md has what
// they demand and why.
#pragma once

#include "check.h"

namespace conformance {

// Without a device.
void check_exports(const Target& target);
void check_query(const Target& target);
void check_load(const Target& target);
void check_process_exit(const Target& target);

// On an open device.
void check_silence(Bench& bench);
void check_structs(Bench& bench);
void check_unknown(Bench& bench);
void check_malformed(Bench& bench);
void check_supports(Bench& bench);
void check_imports(Bench& bench);
void check_pages(Bench& bench);
void check_ordering(Bench& bench);
void check_events(Bench& bench);
void check_cancel(Bench& bench);
void check_replay(Bench& bench);
void check_allocations(Bench& bench);
void check_migration(Bench& bench);
void check_concurrency(Bench& bench);
void check_out_of_memory(Bench& bench);
void check_speed(Bench& bench);

// Opens devices itself.
void check_reopen(const Target& target);
void check_coexistence(const Target& target);
void check_model(const Target& target);

}  // namespace conformance
