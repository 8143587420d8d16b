// minfer-doctor: what a bug report needs, in one command.
#include <fmt/format.h>

#include <boost/json.hpp>
#include <sstream>

#include "files.h"
#include "flags.h"
#include "host.h"
#include "lists.h"
#include "machine.h"
#include "place.h"
#include "terminal.h"

namespace po = boost::program_options;
using namespace minfer;

namespace {

constexpr const char* kProgram = "minfer-doctor";
constexpr int kNotWell = 1;
constexpr unsigned kHelpWidth = 100;

po::options_description describe() {
  po::options_description d("options", kHelpWidth);
  auto add = d.add_options();
  add("config,c", app::one("FILE"), "also take plugins and gates from this YAML");
  add("plugin", app::several("FILE"), "also load this plugin");
  add("json", "print one JSON object");
  add("version", "print the version");
  add("help,h", "print this");
  return d;
}

std::string help_text() {
  std::ostringstream out;
  out << "usage: minfer-doctor [options]\n"
         "\nPrints versions, plugins found and rejected, devices, processor, memory, limits, "
         "driver\n"
         "and gates, and opens every device. Exit status 1: something is wrong, and the last "
         "lines\n"
         "say what.\n\n"
      << describe();
  return out.str();
}

/// What was found: the host where it could be opened, and everything that is wrong.
struct Diagnosis {
  std::vector<doctor::Section> machine;
  std::unique_ptr<PluginHost> host;
  std::vector<std::string> complaints;
};

/// Opens each usable device, which starts its driver.
void try_devices(Diagnosis& d) {
  bool usable = false;
  for (const DeviceInfo& info : d.host->devices()) {
    if (info.score == 0) continue;
    const auto device = d.host->open(info);
    if (!device) {
      d.complaints.push_back(device.error().message());
      continue;
    }
    if (const auto memory = (*device)->memory(); !memory)
      d.complaints.push_back(memory.error().message());
    usable = true;
  }
  if (!usable) d.complaints.emplace_back("no device can be used");
}

void check_variables(Diagnosis& d) {
  for (const std::string& name : doctor::minfer_variables()) {
    if (name == "MINFER_PLUGIN_PATH") continue;  // the one that is no gate
    if (d.host->gates().find(name) == nullptr)
      d.complaints.push_back(
          fmt::format("the environment variable {} is no gate of any plugin found", name));
  }
}

Result<Diagnosis> diagnose(const app::Flags& flags) {
  Diagnosis d;
  d.machine = doctor::machine_sections();
  RunConfig config;
  if (flags.has("config")) {
    MINFER_ASSIGN(const auto path, find_config(flags.text("config")));
    MINFER_ASSIGN(const std::string text, app::read_file(path, size_t{1} << 20));
    MINFER_ASSIGN(config, parse_config(text, path));
  }
  std::vector<app::GateFlag> gates;
  MINFER_TRY(app::take_place(flags, config, gates));
  auto host = app::open_host(config, gates);
  if (!host) {
    d.complaints.push_back(host.error().message());
    return d;
  }
  d.host = std::move(*host);
  for (const RejectedPlugin& rejected : d.host->rejected())
    d.complaints.push_back(
        fmt::format("{} is not used: {}", rejected.path.string(), rejected.reason));
  try_devices(d);
  check_variables(d);
  return d;
}

std::string gates_in_force(const GateRegistry& gates) {
  std::string out;
  for (const Gate& gate : gates.all()) {
    if (gate.value == gate.spec.default_value && gate.source == GateSource::kDefault) continue;
    out += fmt::format("  {} = {} (from the {})\n", gate.spec.name, gate.value_text(),
                       name_of(gate.source));
  }
  return out.empty() ? "  all at their defaults\n" : out;
}

std::string text(const Diagnosis& d) {
  std::string out;
  for (const doctor::Section& section : d.machine) {
    out += section.title + "\n";
    for (const auto& [name, value] : section.facts) out += fmt::format("  {:24} {}\n", name, value);
  }
  if (d.host) {
    out += "devices and plugins\n";
    std::istringstream lines(app::device_list(*d.host));
    for (std::string line; std::getline(lines, line);) out += "  " + line + "\n";
    out += "gates\n" + gates_in_force(d.host->gates());
  }
  out += d.complaints.empty() ? "nothing is wrong\n" : "what is wrong\n";
  for (const std::string& complaint : d.complaints) out += "  " + complaint + "\n";
  return out;
}

boost::json::object json(const Diagnosis& d) {
  boost::json::object out;
  for (const doctor::Section& section : d.machine) {
    boost::json::object facts;
    for (const auto& [name, value] : section.facts) facts[name] = value;
    out[section.title] = std::move(facts);
  }
  if (d.host) {
    for (auto& [key, value] : app::device_list_json(*d.host)) out[key] = value;
    out["gates"] = app::gate_list_json(d.host->gates());
  }
  out["complaints"] = boost::json::array(d.complaints.begin(), d.complaints.end());
  return out;
}

Result<int> run_command(int argc, char** argv) {
  MINFER_ASSIGN(const app::Flags flags, app::Flags::parse(argc, argv, describe()));
  if (flags.has("help")) return app::print(help_text());
  if (flags.has("version")) return app::print("minfer " MINFER_RELEASE "\n");
  MINFER_ASSIGN(const Diagnosis d, diagnose(flags));
  MINFER_TRY(app::print(flags.has("json") ? boost::json::serialize(json(d)) + "\n" : text(d)));
  return d.complaints.empty() ? 0 : kNotWell;
}

}  // namespace

int main(int argc, char** argv) {
  return app::run_program(kProgram, argc, argv, run_command);
}
