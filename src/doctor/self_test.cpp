// Trains the same recipe twice by this program's own `train`, each in a process of its own: a
// process in which LibTorch has started threads cannot fork workers.
#include "doctor/self_test.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <span>

#include "base/units.h"
#include "data/subprocess.h"
#include "data/write_npy.h"
#include "doctor/area.h"
#include "launch/job.h"
#include "lockstep/error.h"

namespace lockstep::doctor {
namespace {

namespace fs = std::filesystem;

constexpr int kSteps = 20;
constexpr int kBatch = 64;

class ScratchFolder {
 public:
  ScratchFolder() {
    std::string name = (fs::temp_directory_path() / "lockstep-doctor-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr)
      throw BadInput("--self-test: cannot make a folder in {}; set TMPDIR",
                     fs::temp_directory_path().string());
    path_ = name;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

// Images of 28 x 28 pixels in ten classes.
void write_samples(const fs::path& folder) {
  constexpr size_t kSamples = size_t{kSteps} * kBatch;
  constexpr size_t kPixels = size_t{28} * 28;
  std::vector<float> x(kSamples * kPixels);
  for (size_t i = 0; i < x.size(); ++i) x[i] = std::sin(0.37F * static_cast<float>(i % 10007));
  std::vector<int64_t> y(kSamples);
  for (size_t i = 0; i < y.size(); ++i) y[i] = static_cast<int64_t>(i * 7 % 10);
  data::write_npy(folder / "x.npy", "<f4", fmt::format("({}, 1, 28, 28)", kSamples),
                  std::as_bytes(std::span(x)));
  data::write_npy(folder / "y.npy", "<i8", fmt::format("({},)", kSamples),
                  std::as_bytes(std::span(y)));
}

// Without a launcher's variables: the training starts its workers itself.
std::vector<std::string> train_command(const fs::path& folder, const std::string& device,
                                       int workers) {
  std::vector<std::string> command = {"env"};
  for (const std::string& name : launch::launcher_variables())
    command.insert(command.end(), {"-u", name});
  command.push_back(fs::read_symlink("/proc/self/exe").string());
  for (const std::string& word :
       {std::string("train"), std::string("--data"), "npy:" + folder.string(),
        std::string("--model"), std::string("convnet"), std::string("--batch"),
        fmt::format("{}", kBatch), std::string("--shards"), std::string("2"),
        std::string("--steps"), fmt::format("{}", kSteps), std::string("--device"), device,
        std::string("--workers"), fmt::format("{}", workers), std::string("--out"),
        (folder / fmt::format("{}", workers)).string(), std::string("--json")})
    command.push_back(word);
  return command;
}

std::string last_line(std::string text) {
  while (text.ends_with('\n')) text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

TrialRun train(const fs::path& folder, const std::string& device, int workers) {
  constexpr std::chrono::seconds kLongest{300};
  TrialRun run{.workers = workers};
  try {
    const auto ended = data::run_program(train_command(folder, device, workers), kLongest);
    if (!ended || ended->exit_code != 0) {
      run.failure = ended ? last_line(ended->errors) : "env is not in the PATH";
      return run;
    }
    const Json result = Json::parse(ended->output);
    run.model_sha256 = result.at("model_sha256");
    run.samples_per_second = result.at("samples_per_second");
  } catch (const BadInput&) {
    run.failure = fmt::format("it did not end within {} s", kLongest.count());
  } catch (const Json::exception& error) {
    run.failure = error.what();
  }
  return run;
}

SelfTestFacts gather_self_test(const std::string& device) {
  const ScratchFolder folder;
  write_samples(folder.path());
  return {.device = device,
          .one = train(folder.path(), device, 1),
          .two = train(folder.path(), device, 2)};
}

Fact fact_of(const TrialRun& run) {
  return {plural(run.workers, "worker"),
          {{"samples_per_second", run.samples_per_second},
           {"model_sha256", run.model_sha256},
           {"failure", run.failure}},
          run.failure.empty()
              ? fmt::format("{} samples/s, model {}...",
                            format_count(static_cast<int64_t>(run.samples_per_second)),
                            run.model_sha256.substr(0, 12))
              : "failed: " + run.failure};
}

Section examine_self_test(const Visit& visit) {
  if (!visit.request.self_test) return {};
  const SelfTestFacts facts = gather_self_test(*visit.request.self_test);
  const bool both = facts.one.failure.empty() && facts.two.failure.empty();
  const bool equal = both && facts.one.model_sha256 == facts.two.model_sha256;
  return {{{"device", facts.device, fmt::format("{}, {} steps", facts.device, kSteps)},
           fact_of(facts.one),
           fact_of(facts.two),
           {"models", both ? Json(equal ? "equal" : "different") : Json(),
            !both   ? "not compared"
            : equal ? "equal, bit for bit"
                    : "different"}},
          judge(facts)};
}

const bool self_test_added =
    areas().add({"self-test", "a short training on one and on two workers (--self-test)", 100,
                 examine_self_test});

}  // namespace

std::vector<Finding> judge(const SelfTestFacts& facts) {
  std::vector<Finding> findings;
  for (const TrialRun& run : {facts.one, facts.two})
    if (!run.failure.empty())
      findings.push_back(
          {.id = "self-test.failed",
           .severity = Severity::problem,
           .what = fmt::format("training on {} of kind {} failed: {}",
                               plural(run.workers, "device"), facts.device, run.failure),
           .why = "a recipe would fail in the same way",
           .cure = fmt::format("lockstep train --device {} --workers {} --steps {}", facts.device,
                               run.workers, kSteps)});
  if (!findings.empty()) return findings;
  if (facts.one.model_sha256 != facts.two.model_sha256)
    findings.push_back(
        {.id = "self-test.models",
         .severity = Severity::problem,
         .what = fmt::format("1 and 2 devices of kind {} end with different models, {}... and "
                             "{}...",
                             facts.device, facts.one.model_sha256.substr(0, 12),
                             facts.two.model_sha256.substr(0, 12)),
         .why = "Lockstep promises the same bits on any number of workers",
         .cure = "run it again; if it stays so, report it with the output of lockstep doctor "
                 "--self-test --json"});
  if (facts.two.samples_per_second < facts.one.samples_per_second)
    findings.push_back(
        {.id = "self-test.slower",
         .what = fmt::format("2 workers are slower than 1: {} and {} samples/s",
                             format_count(static_cast<int64_t>(facts.two.samples_per_second)),
                             format_count(static_cast<int64_t>(facts.one.samples_per_second))),
         .why = "they have no core or device each, or a step is too short to share",
         .cure = "look at the findings about processors; measure a longer run: lockstep train "
                 "RECIPE --workers 2"});
  return findings;
}

}  // namespace lockstep::doctor
