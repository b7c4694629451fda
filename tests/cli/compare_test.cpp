#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "expect_error.h"
#include "lockstep_command.h"

namespace lockstep {
namespace {

class Compare : public testing::Test {
 protected:
  /// Four steps, with digests at steps 0, 2 and 4.
  std::string trained(const std::string& name, const std::vector<std::string>& flags = {}) {
    const std::string out = (folder_ / name).string();
    std::vector<std::string> command = {"train",
                                        "--model",
                                        "logistic",
                                        "--steps",
                                        "4",
                                        "--out",
                                        out,
                                        "--set",
                                        "log.every_steps=1",
                                        "--set",
                                        "log.digest_every_steps=2"};
    command.insert(command.end(), flags.begin(), flags.end());
    const CommandResult outcome = lockstep_command(command);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return out;
  }

  const std::filesystem::path& folder() const { return folder_.path(); }

 private:
  TemporaryFolder folder_;
};

TEST_F(Compare, FindsTwoRunsOfOneRecipeTheSame) {
  const std::string a = trained("a"), b = trained("b");
  const CommandResult outcome = lockstep_command({"compare", a, b});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.out, "same result: the models are identical, bit for bit\n");
}

TEST_F(Compare, NamesTheKeyAndTheFirstStepAndTensorOfRunsThatDifferByASeed) {
  const std::string a = trained("a"), b = trained("b", {"--seed", "2"});
  const CommandResult outcome = lockstep_command({"compare", a, b});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.out,
            "different result\n"
            "differs  train.seed: 1 in A, 2 in B\n"
            "diverged at step 0: fc.bias, fc.weight\n"
            "loss     first differs at step 1\n");
  const auto parsed = nlohmann::json::parse(lockstep_command({"compare", a, b, "--json"}).out);
  EXPECT_EQ(parsed["result"], "other");
  EXPECT_EQ(parsed["parted_at_step"], 0);
  EXPECT_EQ(parsed["first_other_loss"], 1);
}

TEST_F(Compare, DoesNotSayThatUnfinishedRunsAgreeWhereTheirLossesDiffer) {
  const std::vector<std::string> unfinished = {"--stop-at-step", "2", "--set",
                                               "log.digest_every_steps=0"};
  std::vector<std::string> seeded = unfinished;
  seeded.insert(seeded.end(), {"--seed", "2"});
  const std::string a = trained("a", unfinished), b = trained("b", unfinished),
                    c = trained("c", seeded);
  const CommandResult alike = lockstep_command({"compare", a, b});
  EXPECT_EQ(alike.exit_code, 0);
  EXPECT_TRUE(has(alike.out, "their logs agree so far")) << alike.out;
  const CommandResult other = lockstep_command({"compare", a, c});
  EXPECT_EQ(other.exit_code, 1);
  EXPECT_TRUE(has(other.out, "at least one run is not finished; their logs differ already\n"))
      << other.out;
  EXPECT_TRUE(has(other.out, "loss     first differs at step 1\n")) << other.out;
}

TEST_F(Compare, RefusesAFolderThatHoldsNoRun) {
  EXPECT_TRUE(refuses({"compare", folder().string(), folder().string()}, "contains no run"));
}

}  // namespace
}  // namespace lockstep
