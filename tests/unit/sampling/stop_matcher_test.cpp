#include <gtest/gtest.h>

#include "minfer/sampler.h"

namespace minfer {
namespace {

/// What comes out of a text that arrives in pieces of `size` bytes.
std::string streamed(const std::vector<std::string>& stops, const std::string& text, size_t size,
                     std::string* matched = nullptr) {
  StopMatcher matcher(stops);
  std::string out;
  for (size_t at = 0; at < text.size(); at += size) out += matcher.push(text.substr(at, size));
  out += matcher.finish();
  if (matched) *matched = matcher.matched();
  return out;
}

TEST(StopMatcher, PassesEverythingWithoutStops) {
  StopMatcher matcher({""});
  EXPECT_EQ(matcher.push("any text"), "any text");
  EXPECT_EQ(matcher.push(""), "");
  EXPECT_EQ(matcher.finish(), "");
  EXPECT_FALSE(matcher.stopped());
}

TEST(StopMatcher, HoldsBackOnlyWhatCouldBecomeAStop) {
  StopMatcher matcher({"\nUser:"});
  EXPECT_EQ(matcher.push("Hello"), "Hello");
  EXPECT_EQ(matcher.push(" there\n"), " there");
  EXPECT_EQ(matcher.push("Us"), "");
  EXPECT_EQ(matcher.push("ed"), "\nUsed");
  EXPECT_EQ(matcher.push("\nUser"), "");
  EXPECT_FALSE(matcher.stopped());
  EXPECT_EQ(matcher.push(": more"), "");
  EXPECT_TRUE(matcher.stopped());
  EXPECT_EQ(matcher.matched(), "\nUser:");
  EXPECT_EQ(matcher.push("later"), "");
  EXPECT_EQ(matcher.finish(), "");
}

TEST(StopMatcher, AnUnfinishedStopComesOutAtTheEnd) {
  StopMatcher matcher({"STOP"});
  EXPECT_EQ(matcher.push("a STO"), "a ");
  EXPECT_EQ(matcher.finish(), "STO");
}

TEST(StopMatcher, PiecesMakeNoDifference) {
  struct Case {
    std::vector<std::string> stops;
    std::string text, out, matched;
  };
  const Case cases[] = {
      {{"aab"}, "aaab", "a", "aab"},
      {{"abab", "ba"}, "xxabab", "xxa", "ba"},
      {{"abcd", "bc"}, "abcd", "a", "bc"},
      {{"bcd", "abcd"}, "xabcdx", "x", "abcd"},
      {{"aaaa"}, "aaabaaa", "aaabaaa", ""},
      {{"<|end|>", "<|eot|>"}, "ok<|e<|eot|>", "ok<|e", "<|eot|>"},
      {{"終わり"}, "これで終わりです", "これで", "終わり"},
      {{"x"}, "x", "", "x"},
  };
  for (const Case& c : cases)
    for (size_t size = 1; size <= c.text.size(); ++size) {
      std::string matched;
      EXPECT_EQ(streamed(c.stops, c.text, size, &matched), c.out) << c.text << " by " << size;
      EXPECT_EQ(matched, c.matched) << c.text << " by " << size;
    }
}

TEST(StopMatcher, ACopyGoesOnAlone) {
  StopMatcher first({"END"});
  first.push("text EN");
  StopMatcher second = first;
  first.push("D");
  EXPECT_TRUE(first.stopped());
  EXPECT_FALSE(second.stopped());
  second = first;
  first = StopMatcher({});
  EXPECT_EQ(second.matched(), "END");
}

}  // namespace
}  // namespace minfer
