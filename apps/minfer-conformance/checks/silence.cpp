// A plugin logs through the host; standard output belongs to the program.
#include <sys/stat.h>
#include <unistd.h>

#include "checks.h"
#include "layer.h"

namespace conformance {

void check_silence(Bench& bench) {
  Layer layer(bench.rng);
  try {
    Session session(bench.device, layer.split);
    layer.fill(session);
    session.run(Layer::kStep);
    session.run(Layer::kStep, MINFER_RUN_TIMED);
  } catch (const Refused&) {  // opening and asking can be noisy too
  }
  std::fflush(nullptr);
  // Both standard streams of this process are one file (see child.cpp).
  struct stat file {};
  if (::fstat(STDOUT_FILENO, &file) != 0) return;
  expect(file.st_size == 0,
         fmt::format("{} bytes were printed; log through minfer_host.log", file.st_size));
}

}  // namespace conformance
