// LOCKSTEP_INSTRUCTIONS: which kernels a process uses, and what runs say of it.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "cli/small_training.h"
#include "lockstep_command.h"
#include "run/events.h"
#include "scoped_variable.h"

namespace lockstep::cli {
namespace {

using Json = nlohmann::json;

class Instructions : public testing::Test {
 protected:
  Instructions() { write_images(folder_.path(), 32); }

  CommandResult train(const std::string& out, const std::string& instructions,
                      const Words& flags = {}) const {
    const ScopedVariable variable("LOCKSTEP_INSTRUCTIONS", instructions);
    return lockstep_command(train_on(
        folder_.path(), out, joined({"--set", "model.name=convnet", "--steps", "4"}, flags)));
  }
  Json event(const std::string& out, const std::string& kind) const {
    Json last;
    for (const Json& each : run::read_events(folder_ / out / "events.jsonl"))
      if (each["event"] == kind) last = each;
    return last;
  }

  const TemporaryFolder folder_;
};

TEST_F(Instructions, ThatDoNotExistOrThatTheProcessorLacksAreRefused) {
  const CommandResult unknown = train("unknown", "sse9");
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_NE(unknown.err.find("LOCKSTEP_INSTRUCTIONS=sse9: must be portable, avx2 or avx512; this "
                             "processor has "),
            std::string::npos)
      << unknown.err;
  if (train("wide", "avx512").exit_code == 0) return;
  EXPECT_NE(train("wide", "avx512").err.find("this processor has "), std::string::npos);
}

TEST_F(Instructions, OfARunAreInItsStartEventAndGiveTheSameModel) {
  ASSERT_EQ(train("own", "").exit_code, 0);
  ASSERT_EQ(train("narrow", "avx2").exit_code, 0);
  EXPECT_EQ(event("narrow", "start")["instructions"], "avx2");
  EXPECT_EQ(event("narrow", "end")["model_sha256"], event("own", "end")["model_sha256"]);
  ASSERT_EQ(train("any", "portable").exit_code, 0);
  EXPECT_EQ(event("any", "start")["instructions"], "portable");
  for (const auto& [layer, kernel] : event("any", "kernels")["layers"].items())
    EXPECT_EQ(kernel, "torch") << layer;
}

TEST_F(Instructions, AreThoseOfOpenBlasInProgramsThatRunStarts) {
  const Words program = {"run", "-n", "1", "--", "sh", "-c", "echo core=$OPENBLAS_CORETYPE."};
  const ScopedVariable narrow("LOCKSTEP_INSTRUCTIONS", "avx2");
  const ScopedVariable own("OPENBLAS_CORETYPE", "Zen");
  EXPECT_NE(lockstep_command(program).out.find("core=Zen."), std::string::npos);
  unsetenv("OPENBLAS_CORETYPE");
  EXPECT_NE(lockstep_command(program).out.find("core=Haswell."), std::string::npos);
}

TEST_F(Instructions, ThatChangeBetweenStopAndResumeAreWarnedOf) {
  ASSERT_EQ(train("run", "avx2", {"--stop-at-step", "2"}).exit_code, 0);
  EXPECT_EQ(event("run", "warning"), Json());
  const ScopedVariable variable("LOCKSTEP_INSTRUCTIONS", "portable");
  ASSERT_EQ(lockstep_command({"train", "--resume", "--out", (folder_ / "run").string()}).exit_code,
            0);
  const std::string warning = event("run", "warning")["message"];
  EXPECT_NE(warning.find("(LOCKSTEP_INSTRUCTIONS: avx2) before and is on "), std::string::npos)
      << warning;
  EXPECT_NE(warning.find("(LOCKSTEP_INSTRUCTIONS: portable) now"), std::string::npos) << warning;
}

}  // namespace
}  // namespace lockstep::cli
