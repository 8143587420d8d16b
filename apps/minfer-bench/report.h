// How minfer-bench prints its records: a table, Markdown, CSV or JSON.
#pragma once

#include <span>
#include <string>

#include "bench.h"

namespace minfer::bench {

/// For a terminal: a line for each test, then kernels, ceilings, memory and what fell back.
std::string table_text(std::span<const Record> records);
/// The same as a Markdown table with lists below it.
std::string markdown_text(std::span<const Record> records);
/// A line for each test with the scalar fields of json_text(), lists joined with ';'.
std::string csv_text(std::span<const Record> records);
/// One object, as docs/schema/minfer-bench.schema.json describes it.
std::string json_text(std::span<const Record> records);

}  // namespace minfer::bench
