// The list of checks.
#include "checks/checks.h"

namespace conformance {
namespace {

std::function<void(const Target&)> on_device(const char* name, void (*run)(Bench&)) {
  return [=](const Target&) {
    Device device;
    Bench bench{device, seeded_rng(name)};
    run(bench);
  };
}

Check device_check(const char* name, const char* what, void (*run)(Bench&)) {
  return {name, what, true, false, on_device(name, run)};
}

std::vector<Check> make_table() {
  std::vector<Check> table = {
      {"exports", "one exported symbol, no dependency on minfer", false, false, check_exports},
      {"query", "the query is pure and repeatable", false, false, check_query},
      {"load", "the core accepts the plugin and its answers", false, false, check_load},
      {"exit", "a process that used the plugin ends normally", false, true, check_process_exit},
      device_check("silence", "nothing is printed", check_silence),
      device_check("structs", "structs of other sizes are read and written within their size",
                   check_structs),
      device_check("unknown", "unknown operators, types and revisions are refused", check_unknown),
      device_check("malformed", "wrong arguments get a status and a text, outputs stay",
                   check_malformed),
      device_check("supports", "yes means that the plan works, no names the reason",
                   check_supports),
  };
  for (const Case& one : all_cases()) {
    table.push_back(device_check(one.name, "values against float64, guard bands", one.run));
  }
  const std::vector<Check> rest = {
      device_check("imports", "each weight is released exactly once and counted", check_imports),
      device_check("pages", "KV pages have ascending sizes and room", check_pages),
      device_check("ordering", "copies and runs of a queue happen in order", check_ordering),
      device_check("events", "events complete with the work before them", check_events),
      device_check("cancel", "a cancelled queue is as new after a wait", check_cancel),
      device_check("replay", "1,000 runs with new inputs and bindings, two plans interleaved",
                   check_replay),
      device_check("allocations", "runs allocate nothing", check_allocations),
      device_check("migration", "a queue and its plans may change threads", check_migration),
      device_check("concurrency", "queues of several threads do not disturb each other",
                   check_concurrency),
      device_check("out_of_memory", "too much memory is a status; the device stays usable",
                   check_out_of_memory),
      {"reopen", "100 times open and close leave nothing behind", true, false, check_reopen},
      {"coexistence", "another plugin in the process changes nothing", true, false,
       check_coexistence},
      {"model", "a tiny model end to end against float64", true, false, check_model},
      device_check("speed", "GB/s and GFLOP/s of operators (no demand)", check_speed),
  };
  table.insert(table.end(), rest.begin(), rest.end());
  return table;
}

}  // namespace

const std::vector<Check>& all_checks() {
  static const std::vector<Check> table = make_table();
  return table;
}

}  // namespace conformance
