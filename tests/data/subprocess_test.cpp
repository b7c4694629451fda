#include "data/subprocess.h"

#include "expect_error.h"

namespace lockstep::data {
namespace {

using std::chrono::seconds;

TEST(Subprocess, CollectsOutputErrorsAndTheExitCode) {
  const auto result = run_program({"sh", "-c", "echo out; echo err >&2; exit 3"}, seconds(20));
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->output, "out\n");
  EXPECT_EQ(result->errors, "err\n");
  EXPECT_EQ(result->exit_code, 3);
}

TEST(Subprocess, CollectsMoreThanAPipeHolds) {
  const auto result = run_program({"head", "-c", "300000", "/dev/zero"}, seconds(20));
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->output.size(), 300'000U);
}

TEST(Subprocess, SaysWhenThereIsNoSuchProgram) {
  EXPECT_FALSE(run_program({"lockstep-no-such-program"}, seconds(20)).has_value());
}

TEST(Subprocess, EndsAProgramThatIsNotDoneInTime) {
  expect_bad_input([] { run_program({"sleep", "60"}, seconds(1)); }, {"`sleep 60`", "1 s"});
}

}  // namespace
}  // namespace lockstep::data
