// The core's own judgement: table, names, gates, operators and the list of devices. And that a
// process which used the plugin ends as it should.
#include "checks.h"
#include "layer.h"
#include "minfer/plugin_host.h"

namespace conformance {

void check_load(const Target& target) {
  auto host =
      minfer::PluginHost::load({.files = {target.plugin}, .search = false, .library_dir = {}});
  if (!host) return fail(host.error().message());
  if (const auto listed = (*host)->enumerate(); !listed) return fail(listed.error().message());
  for (const minfer::DeviceInfo& device : (*host)->devices()) {
    listener().note(device.score > 0 ? fmt::format("{}: {}", device.id, device.name)
                                     : fmt::format("{}: unusable, {}", device.id, device.reason));
  }
  for (const minfer::PluginInfo& info : (*host)->plugins())
    if (!info.note.empty()) listener().note("no device: " + info.note);
}

// Destructors and threads of the plugin meet the end of the process.
void check_process_exit(const Target&) {
  try {
    Device device;
    std::mt19937_64 rng = seeded_rng("exit");
    Layer layer(rng);
    Session session(device, layer.split);
    layer.fill(session);
    session.run(Layer::kStep);
  } catch (const Refused& refused) {
    listener().note("only loaded: " + refused.reason);
  }
}

}  // namespace conformance
