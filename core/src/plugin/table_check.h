// Checks of the table that a plugin's query returns, and its conversion to C++.
#pragma once

#include "minfer/plugin_abi.h"
#include "minfer/result.h"
#include "plugin/plugin.h"

namespace minfer {

/// Fills `plugin` from a table of any minor version: smaller tables are completed with NULL, larger
/// ones cut. Errors are kPlugin and name the field, or list the required functions that are
/// missing.
Result<void> read_table(const minfer_plugin* table, Plugin& plugin);

}  // namespace minfer
