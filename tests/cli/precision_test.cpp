// What `lockstep train --precision bf16` promises: one model, whoever computes it.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "cli/small_runs.h"

namespace lockstep::cli {
namespace {

class Precision : public SmallRuns {
 protected:
  nlohmann::json lower(const std::string& out, Words flags) const {
    flags.insert(flags.end(), {"--precision", "bf16"});
    return result(out, flags);
  }
  std::string lower_digest(const std::string& out, const Words& flags) const {
    return lower(out, flags).value("model_sha256", "");
  }
};

TEST_F(Precision, OfBfloat16EndsWithTheSameModelOnAnyWorkersAndStages) {
  const std::string alone = lower_digest("alone", {});
  ASSERT_FALSE(alone.empty());
  EXPECT_NE(alone, digest("full", {}));
  EXPECT_EQ(lower_digest("workers", {"--workers", "3"}), alone);
  EXPECT_EQ(lower_digest("stages", {"--workers", "2", "--stages", "2"}), alone);
  EXPECT_EQ(lower_digest("grid", {"--workers", "4", "--stages", "2", "--transport", "tcp"}), alone);
  EXPECT_EQ(lower_digest("again", {"--set", "parallel.recompute=true"}), alone);
  EXPECT_EQ(lower_digest("zero", {"--workers", "2", "--zero"}), alone);
}

TEST_F(Precision, OfBfloat16HoldsTheSameOnVirtualDevices) {
  const Words one = {"--device", "virtual"};
  const std::string alone = lower_digest("alone", one);
  ASSERT_FALSE(alone.empty());
  EXPECT_EQ(
      lower_digest("dp", {"--device", "virtual", "--parallel", "dp", "--devices", "virtual:2"}),
      alone);
  EXPECT_EQ(lower_digest("stages", {"--device", "virtual", "--stages", "2", "--set",
                                    "device.asynchronous=true"}),
            alone);
}

TEST_F(Precision, OfBfloat16NeedsLessMemoryForActivations) {
  const Words few = {"--set", "evaluate.batch=1", "--set", "train.kernels=torch",
                     "--set", "train.batch=48",   "--set", "train.shards=1"};
  const int64_t full = result("full", few)["memory"]["activations"];
  const int64_t half = lower("half", few)["memory"]["activations"];
  EXPECT_LT(static_cast<double>(half), 0.75 * static_cast<double>(full));
}

TEST_F(Precision, IsThatOfTheRunWhenItsModelIsEvaluated) {
  const nlohmann::json run = lower("run", {});
  const CommandResult again =
      lockstep_command({"evaluate", (folder_.path() / "run").string(), "--json"});
  ASSERT_EQ(again.exit_code, 0) << again.err;
  const nlohmann::json evaluated = nlohmann::json::parse(again.out);
  EXPECT_EQ(evaluated["loss"], run["test_loss"]) << evaluated;
}

TEST_F(Precision, OfAnotherNameIsRefused) {
  EXPECT_TRUE(refuses({"--precision", "fp8"}, "train.precision"));
}

}  // namespace
}  // namespace lockstep::cli
