#include "base/toml_value.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(TomlValue, WrittenAndReadAgainIsTheSame) {
  const std::vector<TomlValue> values = {true,
                                         false,
                                         int64_t{-3},
                                         int64_t{INT64_MAX},
                                         0.1,
                                         3.0,
                                         -0.0,
                                         1e-300,
                                         1e22,
                                         std::string("a \"quoted\" \\ text\n\x01\x7f\t\xc3\xa9"),
                                         std::string(),
                                         std::string("64"),
                                         std::vector<double>{1, 2.5, 1e-12},
                                         std::vector<double>{}};
  for (const TomlValue& value : values)
    EXPECT_EQ(parse_toml_value(toml_text(value)), value) << toml_text(value);
}

TEST(TomlValue, TextsAreAsRecipesWriteThem) {
  EXPECT_EQ(toml_text(true), "true");
  EXPECT_EQ(toml_text(int64_t{64}), "64");
  EXPECT_EQ(toml_text(64.0), "64.0");
  EXPECT_EQ(toml_text(std::string("sgd")), "\"sgd\"");
  EXPECT_EQ(toml_text(std::vector<double>{80, 120.5}), "[80.0, 120.5]");
}

TEST(TomlValue, WhatRecipesCannotHoldIsNone) {
  for (const char* text : {"word", "", "nan", "inf", "[nan]", "[\"a\"]", "[[1]]", "{a = 1}",
                           "2024-01-01", "1\nb = 2", "\"open", "9223372036854775808", "\xff"})
    EXPECT_EQ(parse_toml_value(text), std::nullopt) << text;
}

TEST(TomlValue, WhatIsNoneMayBeATextWithoutQuotes) {
  EXPECT_EQ(toml_value_or_text("wide"), TomlValue(std::string("wide")));
  EXPECT_EQ(toml_value_or_text("64"), TomlValue(int64_t{64}));
}

}  // namespace
}  // namespace lockstep
