// Reads --plugin, --device and --seed, then runs the tests.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "harness.h"

namespace {

std::string from_environment(const char* name, const std::string& otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : otherwise;
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  ops_test::Settings& settings = ops_test::settings();
  settings.plugin = from_environment("MINFER_TEST_PLUGIN",
                                     MINFER_BINARY_DIR "/lib/minfer/plugins/libminfer_cpu.so");
  settings.device = static_cast<uint32_t>(std::stoul(from_environment("MINFER_TEST_DEVICE", "0")));
  settings.seed =
      std::stoull(from_environment("MINFER_TEST_SEED", std::to_string(std::random_device()())));
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--plugin") == 0) {
      settings.plugin = argv[i + 1];
    } else if (std::strcmp(argv[i], "--device") == 0) {
      settings.device = static_cast<uint32_t>(std::stoul(argv[i + 1]));
    } else if (std::strcmp(argv[i], "--seed") == 0) {
      settings.seed = std::stoull(argv[i + 1]);
    } else {
      std::fprintf(stderr, "unknown option %s; --plugin PATH, --device N, --seed N\n", argv[i]);
      return 2;
    }
  }
  std::printf("plugin %s, device %u, seed %llu\n", settings.plugin.c_str(), settings.device,
              static_cast<unsigned long long>(settings.seed));
  return RUN_ALL_TESTS();
}
