#include "minfer/nearest.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace minfer {
namespace {

TEST(Nearest, CountsEdits) {
  EXPECT_EQ(edit_distance("temp", "temp", 5), 0u);
  EXPECT_EQ(edit_distance("tmep", "temp", 5), 1u) << "a swap of neighbours is one edit";
  EXPECT_EQ(edit_distance("temps", "temp", 5), 1u);
  EXPECT_EQ(edit_distance("Top-K", "top_k", 5), 0u) << "case and '-' against '_' do not count";
  EXPECT_EQ(edit_distance("kitten", "sitting", 5), 3u);
  EXPECT_EQ(edit_distance("kitten", "sitting", 2), 3u) << "limit + 1 beyond the limit";
  EXPECT_EQ(edit_distance("", "abc", 5), 3u);
}

TEST(Nearest, SuggestsOnlyWhatMayBeMeant) {
  const std::vector<std::string> keys = {"model", "backends", "context", "repeat_penalty", "seed"};
  EXPECT_EQ(nearest_name("modle", keys), "model");
  EXPECT_EQ(nearest_name("backend", keys), "backends");
  EXPECT_EQ(nearest_name("ctx", keys), "");
  EXPECT_EQ(nearest_name("repeat", keys), "repeat_penalty") << "the start of a name";
  EXPECT_EQ(nearest_name("zebra", keys), "");
  EXPECT_EQ(nearest_name("", keys), "");
  EXPECT_EQ(did_you_mean("sead", keys), "did you mean 'seed'?");
  EXPECT_EQ(did_you_mean("zebra", keys), "");
}

TEST(Nearest, LongNamesAreNotCompared) {
  const std::vector<std::string> keys = {std::string(100000, 'a')};
  EXPECT_EQ(edit_distance(keys[0], std::string(100000, 'b'), 50000), 50001u);
}

}  // namespace
}  // namespace minfer
