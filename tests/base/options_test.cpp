#include "lockstep/options.h"

#include <gtest/gtest.h>

#include "expect_error.h"

namespace lockstep {
namespace {

using Values = std::map<std::string, std::string>;

TEST(Options, GivesValuesAsRecipesWriteThem) {
  const Options options(Values{{"width", "64"},
                               {"rate", "0.5"},
                               {"zero", "true"},
                               {"loss", "\"huber \\\"h\\\"\""},
                               {"weights", "[1.0, 2, 0.5]"}});
  EXPECT_EQ(options.integer("width", 1), 64);
  EXPECT_EQ(options.number("rate", 1), 0.5);
  EXPECT_EQ(options.number("width", 1), 64.0) << "a whole number is a number";
  EXPECT_TRUE(options.flag("zero", false));
  EXPECT_EQ(options.text("loss", ""), "huber \"h\"");
  EXPECT_EQ(options.numbers("weights", {}), (std::vector<double>{1, 2, 0.5}));
}

TEST(Options, GiveWhatIsSaidOtherwiseWhereTheRecipeSaysNothing) {
  const Options options;
  EXPECT_EQ(options.integer("width", 7), 7);
  EXPECT_EQ(options.number("rate", 0.25), 0.25);
  EXPECT_TRUE(options.flag("zero", true));
  EXPECT_EQ(options.text("loss", "squared"), "squared");
  EXPECT_EQ(options.numbers("weights", {3}), std::vector<double>{3});
}

TEST(Options, TakeATextWithoutQuotesAsAShellHandsItOver) {
  EXPECT_EQ(Options(Values{{"fault", "throws"}}).text("fault", ""), "throws");
  EXPECT_EQ(Options(Values{{"fault", "nan"}}).text("fault", ""), "nan");
  EXPECT_EQ(Options(Values{{"fault", "two words = 1\nb = 2"}}).text("fault", ""),
            "two words = 1\nb = 2");
  EXPECT_EQ(Options(Values{{"fault", ""}}).text("fault", "x"), "");
}

TEST(Options, RefuseAValueOfAnotherKindWithKeyValueAndWhatWasExpected) {
  const Options options(
      Values{{"x", "0.5"}, {"word", "wide"}, {"list", "[1, \"a\"]"}, {"n", "64"}});
  expect_bad_input([&] { options.integer("x", 1); }, {"x = 0.5", "a whole number"});
  expect_bad_input([&] { options.integer("word", 1); }, {"word = wide", "a whole number"});
  expect_bad_input([&] { options.number("word", 1); }, {"word = wide", "a finite number"});
  expect_bad_input([&] { options.flag("n", true); }, {"n = 64", "true or false"});
  expect_bad_input([&] { options.text("n", ""); }, {"n = 64", "a text in quotes"});
  expect_bad_input([&] { options.numbers("n", {}); }, {"n = 64", "a list of finite numbers"});
  expect_bad_input([&] { options.numbers("list", {}); }, {"list = [1, \"a\"]", "a list"});
}

TEST(Options, NameTheirTableInMessages) {
  const Options options(Values{{"width", "wide"}}, "model.options");
  expect_bad_input([&] { options.integer("width", 1); }, {"model.options.width = wide"});
}

TEST(Options, RefuseNumbersThatDoNotFitOrAreNotFinite) {
  const Options options(Values{
      {"many", "9223372036854775808"}, {"nan", "nan"}, {"inf", "-inf"}, {"list", "[1.0, inf]"}});
  expect_bad_input([&] { options.integer("many", 1); }, {"many = 9223372036854775808", "64 bits"});
  expect_bad_input([&] { options.number("nan", 1); }, {"nan = nan", "finite"});
  expect_bad_input([&] { options.number("inf", 1); }, {"inf = -inf", "finite"});
  expect_bad_input([&] { options.numbers("list", {}); }, {"[1.0, inf]", "finite"});
  EXPECT_EQ(Options(Values{{"many", "9223372036854775807"}}).integer("many", 1), INT64_MAX);
}

TEST(Options, RefuseAKeyThatNobodyHasAskedForWithTheNearestOne) {
  const Options options(Values{{"zero_gama", "true"}});
  options.flag("zero_gamma", false);
  options.integer("width", 1);
  EXPECT_EQ(message_of<BadInput>([&] { options.refuse_unknown("model 'resnet20'"); }),
            "model 'resnet20': has no option 'zero_gama' (did you mean 'zero_gamma'?); there are: "
            "width, zero_gamma");
}

TEST(Options, SayWhereNoneIsTaken) {
  EXPECT_EQ(message_of<BadInput>(
                [] { Options(Values{{"width", "3"}}).refuse_unknown("model 'logistic'"); }),
            "model 'logistic': takes no options, but 'width' is set; leave it out");
}

TEST(Options, AcceptWhatWasAskedFor) {
  const Options options(Values{{"width", "3"}});
  options.integer("width", 1);
  options.integer("depth", 1);
  EXPECT_NO_THROW(options.refuse_unknown("model 'mine'"));
  EXPECT_NO_THROW(Options().refuse_unknown("model 'mine'"));
}

}  // namespace
}  // namespace lockstep
