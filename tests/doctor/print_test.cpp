#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "doctor/examine.h"

namespace lockstep::doctor {
namespace {

std::vector<NamedSection> some_sections() {
  const std::string long_text =
      "a value of so many words that no line of a terminal with eighty columns can hold all of it";
  return {{"processors", {{{"cores", 4}, {"our kernels", {{"layers", "AVX2"}}, long_text}}, {}}},
          {"memory",
           {{{"total", 1024, "1.0 KiB"}, {"/dev/shm", 0, "none", "dev_shm"}},
            {{"memory.low", Severity::advice, "there is little", "because", "buy some"},
             {"memory.none", Severity::problem, "there is none", long_text, "buy more"}}}}};
}

TEST(Text, IsAtMostEightyColumnsWideWithValuesBelowEachOther) {
  std::istringstream lines(to_text(some_sections()));
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(line.size(), 80U) << line;
    EXPECT_FALSE(line.ends_with(' ')) << line;
    if (line.starts_with("  cores") || line.starts_with("  total")) {
      EXPECT_EQ(line.find_first_not_of(' ', 8), 15U) << line;
    }
  }
}

TEST(Text, NamesProblemsBeforeAdviceAndCountsThem) {
  const std::string text = to_text(some_sections());
  EXPECT_LT(text.find("there is none"), text.find("there is little"));
  EXPECT_NE(text.find("1 problem, 1 piece of advice\n"), std::string::npos) << text;
  EXPECT_NE(to_text({}).find("Nothing is wrong."), std::string::npos);
}

TEST(JsonText, HasFactsByAreaAndFindingsWithWhatToDo) {
  const Json json = to_json(some_sections());
  EXPECT_EQ(json.at("facts").at("processors").at("cores"), 4);
  EXPECT_EQ(json.at("facts").at("processors").at("our_kernels").at("layers"), "AVX2");
  EXPECT_EQ(json.at("facts").at("memory").at("dev_shm"), 0);
  ASSERT_EQ(json.at("findings").size(), 2U);
  EXPECT_EQ(json.at("findings")[0].at("id"), "memory.none");
  EXPECT_EQ(json.at("findings")[0].at("severity"), "problem");
  EXPECT_EQ(json.at("findings")[1].at("what"), "there is little");
  EXPECT_EQ(json.at("findings")[1].at("do"), "buy some");
}

TEST(ExitCode, IsOneForProblemsAndZeroForAdvice) {
  std::vector<NamedSection> sections = some_sections();
  EXPECT_EQ(exit_code_of(sections), 1);
  sections[1].section.findings.pop_back();
  EXPECT_EQ(exit_code_of(sections), 0);
  EXPECT_EQ(exit_code_of({}), 0);
}

TEST(Areas, AreAllInPlacesOfTheirOwn) {
  std::vector<int> places;
  for (const auto& row : areas()) places.push_back(row->place);
  std::sort(places.begin(), places.end());
  EXPECT_EQ(std::adjacent_find(places.begin(), places.end()), places.end());
  EXPECT_GE(places.size(), 10U);
}

}  // namespace
}  // namespace lockstep::doctor
