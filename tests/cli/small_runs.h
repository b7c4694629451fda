#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "cli/small_training.h"
#include "lockstep_command.h"
#include "temporary_folder.h"

namespace lockstep::cli {

/// Runs of two epochs of five steps, of six shards each, on images of its own.
class SmallRuns : public ::testing::Test {
 protected:
  SmallRuns() { write_images(folder_.path(), 60); }

  CommandResult train(const std::string& out, const Words& flags) const {
    Words words = {"--shards", "6", "--epochs", "2"};
    words.insert(words.end(), flags.begin(), flags.end());
    return lockstep_command(train_on(folder_.path(), out, words));
  }

  nlohmann::json result(const std::string& out, const Words& flags) const {
    const CommandResult outcome = train(out, flags);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return outcome.exit_code != 0 ? nlohmann::json() : nlohmann::json::parse(outcome.out);
  }
  std::string digest(const std::string& out, const Words& flags) const {
    const nlohmann::json end = result(out, flags);
    return end.is_null() ? "" : end.value("model_sha256", "");
  }

  bool refuses(const Words& flags, const std::string& why) const {
    const CommandResult outcome = train("refused", flags);
    EXPECT_NE(outcome.err.find(why), std::string::npos) << outcome.err;
    return outcome.exit_code == 2;
  }

  TemporaryFolder folder_;
};

}  // namespace lockstep::cli
