#include "base/table.h"

#include <gtest/gtest.h>

#include "expect_error.h"

namespace lockstep {
namespace {

struct Animal {
  std::string name;
  std::string about;
  int legs;
};

Table<Animal> animals() {
  Table<Animal> table("animal");
  table.add({"spider", "spins", 8});
  table.add({"cat", "purrs", 4});
  return table;
}

TEST(Table, FindsRowsByTheirNames) {
  const auto table = animals();
  EXPECT_EQ(table.at("spider").legs, 8);
  EXPECT_EQ(table.find("dog"), nullptr);
}

TEST(Table, ListsRowsInTheOrderOfTheirNames) {
  const auto table = animals();
  EXPECT_EQ(table.names(), (std::vector<std::string>{"cat", "spider"}));
  EXPECT_LT(table.help().find("cat                purrs"), table.help().find("spider"));
}

TEST(Table, NamesTheNearestRowForAnUnknownName) {
  const auto table = animals();
  const std::string message = message_of<BadInput>([&] { table.at("spyder"); });
  EXPECT_EQ(message, "'spyder': no such animal (did you mean 'spider'?); there are: cat, spider");
}

TEST(Table, RefusesTwoRowsOfOneName) {
  auto table = animals();
  const std::string message = message_of<BadInput>([&] { table.add({"cat", "again", 4}); });
  EXPECT_EQ(message, "there are two animals named 'cat'; rename one of them");
}

}  // namespace
}  // namespace lockstep
