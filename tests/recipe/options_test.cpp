#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "expect_error.h"
#include "lockstep/error.h"
#include "recipe_text.h"

namespace lockstep {
namespace {

using Values = std::map<std::string, std::string>;
using Lines = std::vector<std::string>;

TEST(RecipeOptions, AreReadFromTheirTables) {
  const Recipe recipe = read_text(
      "[data.options]\nlayout = \"channels_last\"\nimage_size = 32\n"
      "[model]\nname = \"resnet20\"\n[model.options]\nzero_gamma = true\n"
      "[objective.options]\nlabel_smoothing = 0.1\nclass_weights = [1, 2.5]\n");
  EXPECT_EQ(recipe.data.options.text("layout", ""), "channels_last");
  EXPECT_EQ(recipe.data.options.integer("image_size", 0), 32);
  EXPECT_TRUE(recipe.model.options.flag("zero_gamma", false));
  EXPECT_EQ(recipe.objective.options.number("label_smoothing", 0), 0.1);
  EXPECT_EQ(recipe.objective.options.numbers("class_weights", {}), (std::vector<double>{1, 2.5}));
  EXPECT_EQ(recipe.model.name, "resnet20");
}

TEST(RecipeOptions, WrittenAndReadAgainAreTheSame) {
  Recipe recipe;
  recipe.data.options = Options(Values{{"layout", "channels_last"}, {"image_size", "32"}});
  recipe.model.options = Options(Values{{"text", "\"a \\\"b\\\" \\\\ \\n\\u007f é\""},
                                        {"digits", "\"64\""},
                                        {"on", "true"},
                                        {"few", "[]"},
                                        {"list", "[1, 2.5, 1e-12]"}});
  recipe.objective.options = Options(Values{{"delta", "1e22"}, {"big", "9223372036854775807"}});
  const Recipe again = read_text(to_toml(recipe));
  EXPECT_EQ(to_toml(again), to_toml(recipe));
  EXPECT_EQ(result_values(again), result_values(recipe));
  EXPECT_TRUE(differences(again, recipe).empty());
  EXPECT_EQ(again.data.options.text("layout", ""), "channels_last");
  EXPECT_EQ(again.model.options.text("text", ""), "a \"b\" \\ \n\x7f é");
  EXPECT_EQ(again.model.options.text("digits", ""), "64");
  EXPECT_EQ(again.model.options.numbers("list", {}), (std::vector<double>{1, 2.5, 1e-12}));
  EXPECT_EQ(again.objective.options.integer("big", 0), INT64_MAX);
  EXPECT_NO_THROW(validate(again));
}

TEST(RecipeOptions, AreWrittenAfterTheirSectionWhereThereAreAny) {
  Recipe recipe;
  EXPECT_FALSE(has(to_toml(recipe), ".options]"));
  recipe.model.options = Options(Values{{"width", "64"}});
  const std::string toml = to_toml(recipe);
  EXPECT_TRUE(has(toml, "\n\n[model.options]\nwidth = 64\n\n[objective]\n")) << toml;
  EXPECT_LT(toml.find("[model]\n"), toml.find("[model.options]\n"));
  EXPECT_FALSE(has(toml, "[data.options]"));
}

TEST(RecipeOptions, AreSetFromTextWithAndWithoutQuotes) {
  Recipe recipe;
  set(recipe, "model.options.width", "64");
  set(recipe, "model.options.name", "wide");
  set(recipe, "model.options.quoted", "\"64\"");
  set(recipe, "model.options.rate", "0.5");
  set(recipe, "model.options.on", "true");
  set(recipe, "objective.options.class_weights", "[1, 2]");
  set(recipe, "objective.options.fault", "nan");
  set(recipe, "model.options.width", "32");
  EXPECT_EQ(recipe.model.options, Options(Values{{"width", "32"},
                                                 {"name", "\"wide\""},
                                                 {"quoted", "\"64\""},
                                                 {"rate", "0.5"},
                                                 {"on", "true"}}));
  EXPECT_EQ(recipe.objective.options,
            Options(Values{{"class_weights", "[1.0, 2.0]"}, {"fault", "\"nan\""}}));
  EXPECT_EQ(recipe.data.options, Options());
}

TEST(RecipeOptions, SetFromTextAreTheSameAsReadFromAFile) {
  Recipe recipe;
  set(recipe, "model.options.name", "wide");
  set(recipe, "model.options.rate", "1e-3");
  set(recipe, "model.options.width", "0x10");
  EXPECT_TRUE(differences(recipe, read_text("[model.options]\nname = 'wide'\nrate = 0.001\n"
                                            "width = 16\n"))
                  .empty());
}

TEST(RecipeOptions, ChangeTheResult) {
  Recipe now, before;
  now.model.options = Options(Values{{"width", "64"}, {"depth", "3"}});
  before.model.options = Options(Values{{"width", "32"}, {"depth", "3"}});
  EXPECT_EQ(differences(now, before), Lines{"model.options.width: 64, was 32"});
  const Facts values = result_values(now);
  EXPECT_NE(std::find(values.begin(), values.end(), Facts::value_type{"model.options.width", "64"}),
            values.end());
}

TEST(RecipeOptions, OfOnlyOneRecipeAreADifference) {
  Recipe now, before;
  now.data.options = Options(Values{{"layout", "channels_last"}});
  before.model.options = Options(Values{{"width", "32"}});
  before.train.batch = 64;
  EXPECT_EQ(differences(now, before),
            (Lines{"data.options.layout: \"channels_last\", was not set",
                   "train.batch: 128, was 64", "model.options.width: not set, was 32"}));
  EXPECT_EQ(differences(before, now),
            (Lines{"model.options.width: 32, was not set", "train.batch: 64, was 128",
                   "data.options.layout: not set, was \"channels_last\""}));
}

TEST(RecipeOptions, RefuseValuesThatAreNoneWithTheirLine) {
  const auto refusal = [](const std::string& value) {
    return refusal_of("[model.options]\nwidth = 1\nx = " + value + "\n");
  };
  for (const char* value : {"nan", "-inf", "2024-01-01", "[\"a\"]", "[[1]]", "{a = 1}", "[1, nan]"})
    EXPECT_TRUE(has(refusal(value), "r.toml:3: model.options.x = ")) << refusal(value);
  EXPECT_TRUE(has(refusal("nan"), "expected true or false, a finite number")) << refusal("nan");
  const std::string nested = refusal_of("[model.options.more]\na = 1\n");
  EXPECT_TRUE(has(nested, "r.toml:1: model.options.more = {...}: expected")) << nested;
}

TEST(RecipeOptions, RefuseWhatIsNoTable) {
  const std::string message = refusal_of("[model]\noptions = 3\n");
  EXPECT_TRUE(has(message, "r.toml:2: model.options = 3: expected a section [model.options]"))
      << message;
  EXPECT_TRUE(has(refusal_of_setting("model.options", "3"), "such as model.options.width=64"));
}

TEST(RecipeOptions, RefuseKeysThatTomlWouldQuote) {
  EXPECT_TRUE(has(refusal_of("[model.options]\n\"a b\" = 1\n"), "r.toml:2: 'a b'"));
  EXPECT_TRUE(has(refusal_of_setting("model.options.a.b", "1"), "'a.b' in [model.options]"));
  EXPECT_TRUE(has(refusal_of_setting("model.options.", "1"), "letters, digits"));
  Recipe recipe;
  recipe.model.options = Options(Values{{"a\n[train]", "1"}});
  EXPECT_THROW(validate(recipe), BadInput);
}

TEST(RecipeOptions, RefuseATextThatIsNotUtf8) {
  EXPECT_TRUE(has(refusal_of_setting("model.options.name", "\xff"), "is not UTF-8"));
}

TEST(RecipeOptions, AreWhatAnUnknownKeyMayBe) {
  const std::string layout = refusal_of("[data]\nlayout = \"channels_last\"\n");
  EXPECT_TRUE(has(layout,
                  "r.toml:2: unknown key 'data.layout' (did you mean 'data.options.layout'? "
                  "Options of a data set belong in [data.options])"))
      << layout;
  for (const char* old : {"data.image_size", "model.zero_gamma"})
    EXPECT_TRUE(has(refusal_of_setting(old, "1"), ".options.")) << refusal_of_setting(old, "1");
  const std::string smoothing = refusal_of_setting("train.label_smoothing", "0.1");
  EXPECT_TRUE(has(smoothing, "unknown key 'train.label_smoothing'")) << smoothing;
  EXPECT_TRUE(has(smoothing, "of an objective in [objective.options]")) << smoothing;
  const std::string near = refusal_of_setting("data.shfit", "1");
  EXPECT_TRUE(has(near, "(did you mean 'data.shift'?)")) << near;
  EXPECT_FALSE(has(near, "options")) << near;
  EXPECT_TRUE(has(refusal_of("[optimizer.options]\na = 1\n"), "unknown key 'optimizer.options'"));
}

}  // namespace
}  // namespace lockstep
