#include "data/catalog.h"

#include "expect_error.h"
#include "scoped_variable.h"
#include "temporary_folder.h"

namespace lockstep::data {
namespace {

TEST(Catalog, FindsTheDataFolderByEnvironment) {
  {
    const ScopedVariable variable("LOCKSTEP_DATA", "/somewhere");
    EXPECT_EQ(data_home(), "/somewhere");
  }
  const ScopedVariable none("LOCKSTEP_DATA", "");
  {
    const ScopedVariable variable("XDG_DATA_HOME", "/xdg");
    EXPECT_EQ(data_home(), "/xdg/lockstep");
  }
  const ScopedVariable no_xdg("XDG_DATA_HOME", "");
  {
    const ScopedVariable variable("HOME", "/home/ada");
    EXPECT_EQ(data_home(), "/home/ada/.local/share/lockstep");
  }
  const ScopedVariable no_home("HOME", "");
  EXPECT_EQ(find_data_home(), std::nullopt);
  expect_bad_input([] { data_home(); }, {"set LOCKSTEP_DATA"});
}

TEST(Catalog, SaysHowToGetFashionMnist) {
  const TemporaryFolder home;
  const std::vector<std::filesystem::path> folders = {home / "fashion-mnist"};
  expect_bad_input([&] { folder_with(catalog_entry("fashion-mnist"), folders); },
                   {"apt-get install dataset-fashion-mnist"});
}

TEST(Catalog, TakesTheFirstFolderThatHasEveryFile) {
  const TemporaryFolder home;
  CatalogEntry entry;
  entry.name = "small";
  entry.files = {{"one", 1, ""}, {"two", 1, ""}};
  const std::vector<std::filesystem::path> folders = {home / "a", home / "b"};
  EXPECT_EQ(find_folder(entry, folders), std::nullopt);
  home.write("a/one", "1");
  home.write("b/one", "1");
  home.write("b/two.gz", "2");
  EXPECT_EQ(find_folder(entry, folders), home / "b");
  home.write("a/two", "2");
  EXPECT_EQ(find_folder(entry, folders), home / "a");
}

}  // namespace
}  // namespace lockstep::data
