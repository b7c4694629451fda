#include "doctor/blas.h"

#include <gtest/gtest.h>

#include "doctor/findings.h"

namespace lockstep::doctor {
namespace {

BlasFacts openblas() {
  return {.was_asked = true,
          .file = "/usr/lib/openblas-openmp/libblas.so.3",
          .name = "OpenBLAS",
          .core = "Haswell",
          .threads = 4,
          .usable_cores = 4,
          .instruction_sets = {"avx2", "fma"}};
}

TEST(Blas, ThatFitsTheMachineIsNoFinding) {
  EXPECT_TRUE(judge(openblas()).empty());
  EXPECT_TRUE(judge(BlasFacts{}).empty()) << "liblockstep was not loaded";
  BlasFacts old_machine = openblas();
  old_machine.core = "Nehalem";
  old_machine.instruction_sets = {"sse4_2"};
  EXPECT_TRUE(judge(old_machine).empty());
}

TEST(Blas, OfReferenceIsAProblemWithThePackageToInstall) {
  BlasFacts facts = openblas();
  facts.name = "reference BLAS";
  facts.core = "";
  facts.threads.reset();
  facts.file = "/usr/lib/blas/libblas.so.3";
  expect_one(judge(facts), "blas.reference", Severity::problem,
             {"/usr/lib/blas/libblas.so.3", "apt-get install libopenblas0-openmp"});
}

TEST(Blas, ThatTakesTheProcessorForAnOldOneSaysWhichToSet) {
  BlasFacts facts = openblas();
  facts.core = "Prescott";
  expect_one(judge(facts), "blas.core", Severity::advice,
             {"Prescott", "OPENBLAS_CORETYPE=Haswell"});
  facts.instruction_sets.emplace_back("avx512f");
  expect_one(judge(facts), "blas.core", Severity::advice, {"OPENBLAS_CORETYPE=SkylakeX"});
}

TEST(Blas, WithThreadsOfItsOwnIsAdvice) {
  BlasFacts facts = openblas();
  facts.has_own_threads = true;
  expect_one(judge(facts), "blas.own_threads", Severity::advice, {"libopenblas0-openmp"});
}

TEST(Blas, WithMoreThreadsThanCoresIsAdvice) {
  BlasFacts facts = openblas();
  facts.threads = 64;
  expect_one(judge(facts), "blas.threads", Severity::advice,
             {"64 threads", "4 cores are usable", "OMP_NUM_THREADS=4"});
}

TEST(Blas, ThreadVariablesWithOddValuesAreNamed) {
  for (const char* odd : {"", "0", "-1", "four", "2x"}) {
    BlasFacts facts = openblas();
    facts.variables = {{"OMP_NUM_THREADS", odd}};
    expect_one(judge(facts), "blas.thread_variable", Severity::advice,
               {std::string("OMP_NUM_THREADS='") + odd + "'", "unset OMP_NUM_THREADS"});
  }
  BlasFacts facts = openblas();
  facts.variables = {{"OMP_NUM_THREADS", "4,2"}, {"OPENBLAS_NUM_THREADS", "9"}};
  expect_one(judge(facts), "blas.thread_variable", Severity::advice, {"OPENBLAS_NUM_THREADS=9"});
}

}  // namespace
}  // namespace lockstep::doctor
