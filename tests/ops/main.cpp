// The operator matrix as GoogleTest cases, one for each instruction level of the CPU plugin; a
// plugin without that gate runs under "auto" only.
//
// The plugin: --plugin PATH or MINFER_TEST_PLUGIN, else the CPU plugin of this build; the device:
// --device N or MINFER_TEST_DEVICE, else 0; the seed of all random inputs: --seed N or
// MINFER_TEST_SEED, else fresh, and printed.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>

#include "cases.h"
#include "levels.h"

namespace conformance {
namespace {

class ToGoogleTest : public Listener {
 public:
  void failed(const std::string& text) override { ADD_FAILURE() << text; }
  /// The matrix is for plugins that claim all of it.
  void refused(const std::string& reason) override { ADD_FAILURE() << "refused: " << reason; }
};

class MatrixTest : public testing::Test {
 public:
  MatrixTest(const Case& one, std::string level) : case_(one), level_(std::move(level)) {}

  void TestBody() override {
    if (level_ != "auto" && !has_gate("MINFER_CPU_ISA")) GTEST_SKIP() << "the plugin has no levels";
    // Devices start threads, so one per level serves all its tests.
    static std::map<std::string, std::unique_ptr<Device>> devices;
    auto& device = devices[level_];
    try {
      if (device == nullptr)
        device = std::make_unique<Device>(
            std::map<std::string, std::string>{{"MINFER_CPU_ISA", level_}});
    } catch (const Refused& refused) {
      GTEST_SKIP() << refused.reason;
    }
    Bench bench{*device, seeded_rng(case_.name + level_), level_ == "scalar"};
    case_.run(bench);
  }

 private:
  Case case_;
  std::string level_;
};

void register_cases() {
  for (const Case& one : all_cases()) {
    const std::string name = one.name;
    const size_t dot = name.find('.');
    for (const char* level : kLevels) {
      testing::RegisterTest(name.substr(0, dot).c_str(),
                            (name.substr(dot + 1) + "/" + level).c_str(), nullptr, level, __FILE__,
                            __LINE__, [one, level] { return new MatrixTest(one, level); });
    }
  }
}

std::string from_environment(const char* name, const std::string& otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : otherwise;
}

}  // namespace
}  // namespace conformance

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  using namespace conformance;
  Settings& settings = conformance::settings();
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
  static ToGoogleTest to_google_test;
  set_listener(to_google_test);
  register_cases();
  return RUN_ALL_TESTS();
}
