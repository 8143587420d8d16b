#include "minfer/gates.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "minfer/log.h"

namespace minfer {
namespace {

std::vector<GateSpec> sample() {
  return {{.name = "MINFER_T_FAST", .type = GateType::kBool, .default_value = 1, .help = "a|b"},
          {.name = "MINFER_T_SPLIT",
           .type = GateType::kInt,
           .scope = GateScope::kRun,
           .default_value = 4,
           .min_value = -1,
           .max_value = 64,
           .help = "parts"},
          {.name = "MINFER_T_ISA",
           .type = GateType::kEnum,
           .scope = GateScope::kLoad,
           .affects_numerics = true,
           .default_value = 2,
           .choices = {"scalar", "avx2", "avx512"},
           .help = "instruction set"}};
}

class Gates : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(registry_.declare("core", {}));
    ASSERT_TRUE(registry_.declare("t", sample()));
    set_log_sink([this](LogLevel, std::string_view line) { log_.emplace_back(line); });
  }
  void TearDown() override {
    set_log_sink({});
    for (const char* name : {"MINFER_T_FAST", "MINFER_T_SPLIT", "MINFER_T_ISA", "MINFER_T_FSAT"})
      ::unsetenv(name);
  }
  Error error_of(const GateTexts& texts, const GateTexts& at = {}) {
    auto result = registry_.resolve(texts, at);
    EXPECT_FALSE(result);
    return result ? Error{} : result.error();
  }

  GateRegistry registry_;
  std::vector<std::string> log_;
};

TEST_F(Gates, EnvironmentWinsOverConfigOverDefault) {
  ASSERT_TRUE(registry_.resolve({{"t", {{"MINFER_T_SPLIT", "8"}, {"MINFER_T_ISA", "AVX2"}}}}));
  EXPECT_EQ(registry_.value("MINFER_T_FAST"), 1);
  EXPECT_EQ(registry_.find("MINFER_T_FAST")->source, GateSource::kDefault);
  EXPECT_EQ(registry_.value("MINFER_T_SPLIT"), 8);
  EXPECT_EQ(registry_.find("MINFER_T_SPLIT")->source, GateSource::kConfig);
  ::setenv("MINFER_T_SPLIT", "16", 1);
  ASSERT_TRUE(registry_.resolve({{"t", {{"MINFER_T_SPLIT", "8"}}}}));
  EXPECT_EQ(registry_.value("MINFER_T_SPLIT"), 16);
  EXPECT_EQ(registry_.find("MINFER_T_SPLIT")->source, GateSource::kEnvironment);
  EXPECT_EQ(registry_.values("t"), (std::vector<int64_t>{1, 16, 1})) << "in order of declaration";
}

TEST_F(Gates, ReadsEverySpellingOfABool) {
  for (const char* text : {"1", "on", "TRUE", "yes"}) {
    ASSERT_TRUE(registry_.set("MINFER_T_FAST", text, GateSource::kConfig)) << text;
    EXPECT_EQ(registry_.value("MINFER_T_FAST"), 1) << text;
  }
  for (const char* text : {"0", "Off", "false", "no"}) {
    ASSERT_TRUE(registry_.set("MINFER_T_FAST", text, GateSource::kConfig)) << text;
    EXPECT_EQ(registry_.value("MINFER_T_FAST"), 0) << text;
  }
  for (const char* text : {"", "2", "onn", " 1"})
    EXPECT_FALSE(registry_.set("MINFER_T_FAST", text, GateSource::kConfig)) << text;
}

TEST_F(Gates, RefusesNumbersThatAreNoneOrOutOfRange) {
  for (const char* text : {"65", "-2", "4x", "", "0x10", "1e1", "99999999999999999999"}) {
    auto result = registry_.set("MINFER_T_SPLIT", text, GateSource::kConfig);
    ASSERT_FALSE(result) << text;
    EXPECT_EQ(result.error().code, ErrorCode::kConfig);
    EXPECT_NE(result.error().message().find("an integer from -1 to 64"), std::string::npos);
  }
  EXPECT_TRUE(registry_.set("MINFER_T_SPLIT", "-1", GateSource::kConfig));
}

TEST_F(Gates, SuggestsTheNearestNameAndChoice) {
  Error error =
      error_of({{"t", {{"MINFER_T_FSAT", "1"}}}}, {{"t", {{"MINFER_T_FSAT", "a.yaml:3:5"}}}});
  EXPECT_EQ(error.code, ErrorCode::kConfig);
  EXPECT_EQ(error.message(),
            "a.yaml:3:5: 't' has no gate MINFER_T_FSAT (did you mean 'MINFER_T_FAST'?)");
  error = error_of({{"t", {{"MINFER_T_ISA", "avx521"}}}});
  EXPECT_EQ(error.message(),
            "gates.t: gate MINFER_T_ISA: 'avx521' is not one of scalar, avx2, avx512 "
            "(did you mean 'avx512'?)");
  error = error_of({{"core", {{"MINFER_T_FAST", "1"}}}});
  EXPECT_NE(error.message().find("it belongs under gates.t"), std::string::npos);
}

TEST_F(Gates, ABadValueInTheEnvironmentIsAnError) {
  ::setenv("MINFER_T_SPLIT", "many", 1);
  const Error error = error_of({});
  EXPECT_EQ(error.where, "environment");
  EXPECT_NE(error.what.find("'many'"), std::string::npos);
}

TEST_F(Gates, AnAbsentOwnerIsOneNote) {
  ASSERT_TRUE(registry_.resolve({{"cuda", {{"MINFER_A", "1"}, {"MINFER_B", "2"}}}}));
  ASSERT_EQ(log_.size(), 1u);
  EXPECT_NE(log_[0].find("'cuda'"), std::string::npos);
  EXPECT_NE(log_[0].find("core, t"), std::string::npos);
}

TEST_F(Gates, AMisspeltVariableIsReported) {
  ::setenv("MINFER_T_FSAT", "1", 1);
  ASSERT_TRUE(registry_.resolve({}));
  ASSERT_EQ(log_.size(), 1u);
  EXPECT_NE(log_[0].find("MINFER_T_FSAT"), std::string::npos);
  EXPECT_NE(log_[0].find("MINFER_T_FAST"), std::string::npos);
}

TEST_F(Gates, NamesAreUniqueAcrossOwners) {
  auto taken = registry_.declare("other", sample());
  ASSERT_FALSE(taken);
  EXPECT_NE(taken.error().message().find("already declared by 't'"), std::string::npos);
  EXPECT_TRUE(registry_.values("other").empty()) << "nothing of a refused table stays";
  EXPECT_FALSE(
      registry_.declare("twice", {{.name = "MINFER_X", .help = "x"}, {.name = "MINFER_X"}}));
}

TEST_F(Gates, DeclarationsAreChecked) {
  for (const GateSpec& bad :
       {GateSpec{.name = "OTHER_NAME"}, GateSpec{.name = "MINFER_"},
        GateSpec{.name = "MINFER_lower"}, GateSpec{.name = "MINFER_E", .type = GateType::kEnum},
        GateSpec{.name = "MINFER_I", .type = GateType::kInt, .default_value = 5, .max_value = 4},
        GateSpec{.name = "MINFER_I", .type = GateType::kInt, .min_value = 2, .max_value = 1}}) {
    auto result = registry_.declare("bad", {bad});
    ASSERT_FALSE(result) << bad.name;
    EXPECT_EQ(result.error().code, ErrorCode::kPlugin);
  }
}

TEST_F(Gates, TheTableShowsValueAndSource) {
  ASSERT_TRUE(registry_.set("MINFER_T_SPLIT", "9", GateSource::kConfig));
  const std::string plain = gates_table(registry_, GateTableFormat::kPlain);
  EXPECT_NE(plain.find("MINFER_T_SPLIT = 9"), std::string::npos) << plain;
  EXPECT_NE(plain.find("config"), std::string::npos);
  EXPECT_NE(plain.find("scalar|avx2|avx512; default avx512; load, affects numerics"),
            std::string::npos)
      << plain;
  const std::string markdown = gates_table(registry_, GateTableFormat::kMarkdown);
  EXPECT_NE(markdown.find("| `MINFER_T_SPLIT` | -1..64 | 4 | run | same | parts |"),
            std::string::npos)
      << markdown;
  EXPECT_NE(markdown.find("a\\|b"), std::string::npos);
  EXPECT_EQ(markdown.find(" 9 "), std::string::npos) << "the document shows no values";
}

TEST(CoreGates, AreAcceptedByTheRegistry) {
  GateRegistry registry;
  ASSERT_TRUE(registry.declare("core", core_gates()));
  EXPECT_EQ(registry.find("MINFER_CACHE_TYPE")->value_text(), "auto");
  EXPECT_EQ(registry.find("MINFER_OP_TIMING")->value_text(), "off");
}

}  // namespace
}  // namespace minfer
