#include "base/agreement.h"

#include <gtest/gtest.h>

#include "expect_error.h"
#include "lockstep/error.h"

namespace lockstep {
namespace {

// What ranks say, as rank 0 sees it.
GatherTexts others_say(const std::vector<Facts>& others) {
  return [=](const std::string& own) {
    std::vector<std::string> texts = {own};
    for (const Facts& facts : others)
      agree(facts, [&](const std::string& text) {
        texts.push_back(text);
        return std::vector<std::string>{text};
      });
    return texts;
  };
}

const Facts kFacts = {{"the transport", "tcp"}, {"the batch", "128"}};

TEST(Agreement, IsThereWhenAllHoldTheSame) {
  EXPECT_NO_THROW(agree(kFacts, others_say({kFacts, kFacts})));
  EXPECT_NO_THROW(agree({}, others_say({{}})));
}

TEST(Agreement, NamesTheFirstDifferenceAndBothRanks) {
  const Facts odd = {{"the transport", "tcp"}, {"the batch", "64"}};
  const std::string message =
      message_of<Mismatch>([&] { agree(kFacts, others_say({kFacts, odd})); });
  EXPECT_EQ(message, "ranks disagree on the batch: rank 0 has 128, rank 2 has 64");
}

TEST(Agreement, IsRefusedToWhoSpeaksOfSomethingElse) {
  const std::string message =
      message_of<Mismatch>([&] { agree(kFacts, others_say({{{"the model", "x"}}})); });
  EXPECT_EQ(message, "ranks disagree: rank 0 has the transport, but rank 1 has the model");
  EXPECT_THROW(agree(kFacts, others_say({{kFacts[0]}})), Mismatch);
  EXPECT_THROW(agree(kFacts, [](const std::string& own) { return std::vector{own, own + "!"}; }),
               Mismatch);
}

TEST(Agreement, TakesValuesOfAnyBytes) {
  const Facts odd = {{"the file", "\xff\xfe"}};
  EXPECT_NO_THROW(agree(odd, others_say({odd})));
}

}  // namespace
}  // namespace lockstep
