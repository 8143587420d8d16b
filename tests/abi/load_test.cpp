// What the host says to plugins that do not fit: versions, sizes, tables, names, gates.
#include <cstdlib>
#include <fstream>

#include "fixture.h"

namespace minfer {
namespace {

using Parts = std::vector<std::string>;

TEST_F(AbiTest, AcceptsAPluginOfThisVersion) {
  auto host = load({plugin_file("good")});
  ASSERT_TRUE(host) << host.error().message();
  ASSERT_EQ((*host)->plugins().size(), 1u);
  const PluginInfo& info = (*host)->plugins()[0];
  EXPECT_EQ(info.backend, "good");
  EXPECT_EQ(info.version, "1.2.3");
  EXPECT_EQ(info.description, "A plugin for tests");
  EXPECT_EQ(info.abi_minor, MINFER_ABI_MINOR);
  EXPECT_TRUE((*host)->rejected().empty());
  const Gate* gate = (*host)->gates().find("MINFER_GOOD_LEVEL");
  ASSERT_NE(gate, nullptr);
  EXPECT_EQ(gate->value, 3);
  EXPECT_EQ(gate->spec.owner, "good");
}

TEST_F(AbiTest, WrongMajorNamesBothVersions) {
  expect_refused(plugin_file("wrong_major"), ErrorCode::kPlugin,
                 Parts{"built for plugin ABI 2", "has plugin ABI 1", "0.1.0"});
}

TEST_F(AbiTest, NewerMinorWithLargerStructsWorks) {
  auto host = load({plugin_file("newer_minor")});
  ASSERT_TRUE(host) << host.error().message();
  EXPECT_EQ((*host)->plugins()[0].abi_minor, MINFER_ABI_MINOR + 5);
  EXPECT_EQ((*host)->gates().values("newer"), (std::vector<int64_t>{3, 1}));
  ASSERT_TRUE((*host)->enumerate());
  ASSERT_EQ((*host)->devices().size(), 2u);
  auto device = (*host)->open((*host)->devices()[0]);
  ASSERT_TRUE(device) << device.error().message();
  // The second operator is found only with the larger stride.
  EXPECT_TRUE((*device)->has_op(MINFER_OP_MATMUL, 3));
  EXPECT_FALSE((*device)->has_op(MINFER_OP_MATMUL, 4));
  EXPECT_TRUE((*device)->memory());
}

TEST_F(AbiTest, OlderMinorWithSmallerStructsWorks) {
  auto host = load({plugin_file("older_minor")});
  ASSERT_TRUE(host) << host.error().message();
  EXPECT_EQ((*host)->plugins()[0].abi_minor, 0u);
  EXPECT_EQ((*host)->gates().values("older"), (std::vector<int64_t>{3, 1}));
  ASSERT_TRUE((*host)->enumerate());
  ASSERT_EQ((*host)->devices().size(), 2u);
  EXPECT_EQ((*host)->devices()[0].max_buffer_bytes, 0u)
      << "a field beyond the plugin's struct is zero";
  auto device = (*host)->open((*host)->devices()[0]);
  ASSERT_TRUE(device) << device.error().message();
  // Slots beyond its table hold garbage that must not be called.
  EXPECT_EQ((*device)->table().queue_cancel, nullptr);
  auto queue = (*device)->queue_create();
  ASSERT_TRUE(queue);
  auto cancelled = (*device)->queue_cancel(queue->get());
  ASSERT_FALSE(cancelled);
  EXPECT_EQ(cancelled.error().code, ErrorCode::kUnsupported);
}

struct Refusal {
  const char* plugin;
  Parts parts;
};

void PrintTo(const Refusal& refusal, std::ostream* out) {
  *out << refusal.plugin;
}

class Refused : public AbiTest, public ::testing::WithParamInterface<Refusal> {};

TEST_P(Refused, SaysWhy) {
  expect_refused(plugin_file(GetParam().plugin), ErrorCode::kPlugin, GetParam().parts);
}

INSTANTIATE_TEST_SUITE_P(
    Load, Refused,
    ::testing::Values(
        Refusal{"no_symbol", {"is no minfer plugin", "minfer_plugin_query_v1"}},
        Refusal{"missing_dependency",
                {"libminfer_abi_gone.so", "cannot open shared object file", "install the library"}},
        Refusal{"undefined_symbol", {"undefined symbol: minfer_abi_gone"}},
        Refusal{"query_throws", {"its query", "threw an exception", "no such thing"}},
        Refusal{"query_throws_int", {"its query", "threw an exception"}},
        Refusal{"host_too_old",
                {"needs host ABI 1.9, found 1.0", "this minfer is 0.1.0", "plugin ABI 1.0"}},
        Refusal{"unknown_status", {"its query", "unknown status 4711"}},
        Refusal{"no_table", {"returned no table"}},
        Refusal{"short_table", {"struct_size is 24", "at least"}},
        Refusal{"null_functions", {"required functions", "supports, plan_run"}},
        Refusal{"half_pair", {"host_alloc and host_free", "together"}},
        Refusal{"bad_backend_name", {"'Bad Name'", "lower-case"}},
        Refusal{"reserved_backend_name", {"'core'", "reserved"}},
        Refusal{"gate_of_core", {"MINFER_OP_TIMING", "already declared by 'core'"}},
        Refusal{"gate_bad_name", {"'LEVEL'", "MINFER_"}},
        Refusal{"gate_bad_default", {"MINFER_G2_LEVEL", "99", "0..9"}},
        Refusal{"gate_bad_type", {"MINFER_G3_LEVEL", "unknown type 77"}},
        Refusal{"gate_bad_stride", {"gate_stride = 4"}},
        Refusal{"too_many_ops", {"n_ops = 4000000000"}}),
    [](const auto& test) { return std::string(test.param.plugin); });

TEST_F(AbiTest, ASecondPluginOfTheSameBackendIsShadowed) {
  auto host = load({plugin_file("good"), plugin_file("same_backend")});
  ASSERT_FALSE(host);
  EXPECT_TRUE(contains(host.error().message(),
                       {"same_backend.so", "'good' is shadowed by", plugin_file("good").string()}));
}

TEST_F(AbiTest, TheSameFileTwiceIsNoConflict) {
  const auto link = folder() / "link.so";
  std::filesystem::create_symlink(plugin_file("good"), link);
  auto host = load({plugin_file("good"), plugin_file("good"), link});
  ASSERT_TRUE(host) << host.error().message();
  EXPECT_EQ((*host)->plugins().size(), 1u);
}

TEST_F(AbiTest, AGateOfAnotherPluginIsRefused) {
  auto host = load({plugin_file("good"), plugin_file("gate_of_good")});
  ASSERT_FALSE(host);
  EXPECT_TRUE(
      contains(host.error().message(), {"MINFER_GOOD_LEVEL", "already declared by 'good'"}));
}

TEST_F(AbiTest, ATextFileIsRefusedInTheLoadersWords) {
  const auto file = folder() / "text.so";
  std::ofstream(file) << "this is no library, only a text that is long enough to be looked at\n";
  expect_refused(file, ErrorCode::kPlugin, Parts{"cannot be loaded", "invalid ELF header"});
}

TEST_F(AbiTest, AFileThatIsCutShortIsRefused) {
  const auto file = copy("good", "short.so");
  std::filesystem::resize_file(file, 100);
  expect_refused(file, ErrorCode::kPlugin, Parts{"cannot be loaded"});
}

TEST_F(AbiTest, AMissingFileIsNotFound) {
  expect_refused(folder() / "none.so", ErrorCode::kNotFound, Parts{"does not exist"});
}

TEST_F(AbiTest, ARelativePathIsRefused) {
  expect_refused("good.so", ErrorCode::kPlugin, Parts{"not an absolute path", "/good.so"});
}

}  // namespace
}  // namespace minfer
