#include "doctor/blas.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <iterator>
#include <string_view>

#include "base/units.h"
#include "doctor/area.h"
#include "doctor/processors.h"
#include "doctor/sources.h"

namespace lockstep::doctor {
namespace {

namespace fs = std::filesystem;

constexpr const char* kReference = "reference BLAS";

// Functions that only one implementation has.
struct KnownBlas {
  const char* function;
  const char* name;
};
constexpr KnownBlas kKnown[] = {{"openblas_get_config", "OpenBLAS"},
                                {"mkl_get_version_string", "MKL"},
                                {"bli_info_get_version_str", "BLIS"},
                                {"ATL_buildinfo", "ATLAS"},
                                {"flexiblas_get_version", "FlexiBLAS"}};

constexpr const char* kThreadVariables[] = {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS",
                                            "MKL_NUM_THREADS"};

std::string name_of_blas(void* library, const fs::path& file) {
  for (const KnownBlas& known : kKnown)
    if (dlsym(library, known.function) != nullptr) return known.name;
  return file.filename().string().starts_with("libblas") ? kReference : "";
}

void ask_openblas(void* library, BlasFacts& facts) {
  const auto config = reinterpret_cast<const char* (*)()>(dlsym(library, "openblas_get_config"));
  const auto threads = reinterpret_cast<int (*)()>(dlsym(library, "openblas_get_num_threads"));
  const auto parallel = reinterpret_cast<int (*)()>(dlsym(library, "openblas_get_parallel"));
  constexpr int kOwnThreads = 1;
  const auto core = reinterpret_cast<const char* (*)()>(dlsym(library, "openblas_get_corename"));
  if (config != nullptr) facts.about = config();
  if (core != nullptr) facts.core = core();
  if (threads != nullptr) facts.threads = threads();
  facts.has_own_threads = parallel != nullptr && parallel() == kOwnThreads;
}

// liblockstep's handle finds what LibTorch, which it has loaded, finds too.
void ask_loaded_blas(void* library, BlasFacts& facts) {
  Dl_info place = {};
  void* const product = dlsym(library, "sgemm_");
  if (product == nullptr || dladdr(product, &place) == 0) return;
  std::error_code ignored;
  facts.file = fs::canonical(place.dli_fname, ignored).string();
  void* const blas = dlopen(place.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  if (blas == nullptr) return;
  facts.name = name_of_blas(blas, facts.file);
  ask_openblas(blas, facts);
  dlclose(blas);
}

BlasFacts gather_blas(const Visit& visit) {
  const ProcessorFacts processors = gather_processors(visit.root);
  BlasFacts facts{.was_asked = visit.library.handle != nullptr,
                  .usable_cores = usable_cores(processors),
                  .instruction_sets = processors.instruction_sets};
  if (facts.was_asked) ask_loaded_blas(visit.library.handle, facts);
  for (const char* const name : kThreadVariables)
    if (const auto value = variable(name)) facts.variables.push_back({name, *value});
  return facts;
}

std::vector<Fact> facts_of(const BlasFacts& facts, const Visit& visit) {
  if (!facts.was_asked) return {{"library", Json(), "unknown: liblockstep is not loaded"}};
  std::vector<std::string> shown;
  Json set = Json::object();
  for (const ThreadVariable& each : facts.variables) {
    set[each.name] = each.value;
    shown.push_back(fmt::format("{}={}", each.name, each.value));
  }
  const std::string name = facts.name.empty() ? "unknown" : facts.name;
  return {{"library", name, facts.file.empty() ? "contained in LibTorch" : name},
          {"file", facts.file},
          {"built as", facts.about, facts.about.empty() ? "unknown" : facts.about},
          {"core", facts.core, facts.core.empty() ? "unknown" : "kernels for " + facts.core},
          {"threads",
           {{"blas", facts.threads ? Json(*facts.threads) : Json()},
            {"libtorch", visit.library.facts->threads}},
           fmt::format("{} in BLAS, {} in LibTorch, for {}",
                       facts.threads ? fmt::format("{}", *facts.threads) : "unknown",
                       visit.library.facts->threads, plural(facts.usable_cores, "usable core"))},
          {"variables", set,
           shown.empty() ? "none is set" : fmt::format("{}", fmt::join(shown, ", "))}};
}

Section examine_blas(const Visit& visit) {
  const BlasFacts facts = gather_blas(visit);
  return {facts_of(facts, visit), judge(facts)};
}

const bool blas_added =
    areas().add({"blas", "the library of matrix products, and threads", 40, examine_blas});

// The first number of "4" or, for nested parallelism, of "4,2"; 0 for anything else.
int threads_in(const std::string& value) {
  int number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  const bool whole = end == value.data() + value.size() || *end == ',';
  return error == std::errc() && whole && number > 0 ? number : 0;
}

std::vector<Finding> judge_variables(const BlasFacts& facts) {
  std::vector<Finding> findings;
  for (const ThreadVariable& each : facts.variables) {
    const int threads = threads_in(each.value);
    if (threads == 0)
      findings.push_back(
          {.id = "blas.thread_variable",
           .what = fmt::format("{}='{}' is not a number of threads", each.name, each.value),
           .why = "it is ignored, and all cores are used",
           .cure = fmt::format("unset {}, or set it to 1 to {}", each.name, facts.usable_cores)});
    else if (threads > facts.usable_cores)
      findings.push_back(
          {.id = "blas.thread_variable",
           .what = fmt::format("{}={}, but {} usable", each.name, each.value,
                               facts.usable_cores == 1
                                   ? "1 core is"
                                   : fmt::format("{} cores are", facts.usable_cores)),
           .why = "threads that wait for each other take turns on a core",
           .cure = fmt::format("unset {}, or set it to {}", each.name, facts.usable_cores)});
  }
  return findings;
}

// OpenBLAS takes a processor that is newer than itself for one of these.
constexpr std::string_view kOldCores[] = {"Generic",   "generic", "Katmai",     "Coppermine",
                                          "Northwood", "Banias",  "Prescott",   "Core2",
                                          "Penryn",    "Atom",    "Dunnington", "Nehalem",
                                          "Athlon",    "Opteron", "Barcelona",  "Bobcat"};

bool has_set(const BlasFacts& facts, std::string_view name) {
  return std::find(facts.instruction_sets.begin(), facts.instruction_sets.end(), name) !=
         facts.instruction_sets.end();
}

bool computes_for_an_old_core(const BlasFacts& facts) {
  return has_set(facts, "avx2") &&
         std::find(std::begin(kOldCores), std::end(kOldCores), facts.core) != std::end(kOldCores);
}

}  // namespace

std::vector<Finding> judge(const BlasFacts& facts) {
  std::vector<Finding> findings = judge_variables(facts);
  if (facts.name == kReference)
    findings.push_back(
        {.id = "blas.reference",
         .severity = Severity::problem,
         .what = fmt::format("LibTorch's matrix products are computed by the reference BLAS, {}",
                             facts.file),
         .why = "it uses one thread and no wide registers, and is many times slower than OpenBLAS",
         .cure = "apt-get install libopenblas0-openmp; if that is installed: unset "
                 "LD_LIBRARY_PATH, or choose it by update-alternatives --all"});
  if (computes_for_an_old_core(facts))
    findings.push_back(
        {.id = "blas.core",
         .what = fmt::format("{} does not know this processor and computes as for {}", facts.name,
                             facts.core),
         .why = "it uses none of the processor's wide registers",
         .cure =
             fmt::format("export OPENBLAS_CORETYPE={} on all hosts (it changes the last bits of "
                         "results), or install a newer OpenBLAS",
                         has_set(facts, "avx512f") ? "SkylakeX" : "Haswell")});
  if (facts.has_own_threads)
    findings.push_back(
        {.id = "blas.own_threads",
         .what = fmt::format("{} starts threads of its own ({})", facts.name, facts.file),
         .why = "they and LibTorch's OpenMP threads wait for each other on the same cores",
         .cure = "apt-get install libopenblas0-openmp"});
  if (findings.empty() && facts.threads && *facts.threads > facts.usable_cores)
    findings.push_back(
        {.id = "blas.threads",
         .what =
             fmt::format("{} uses {}, but {} usable", facts.name, plural(*facts.threads, "thread"),
                         facts.usable_cores == 1 ? "1 core is"
                                                 : fmt::format("{} cores are", facts.usable_cores)),
         .why = "threads that wait for each other take turns on a core",
         .cure = fmt::format("OMP_NUM_THREADS={}; lockstep train sets its threads "
                             "itself (train.threads)",
                             facts.usable_cores)});
  return findings;
}

}  // namespace lockstep::doctor
