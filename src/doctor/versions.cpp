#include "doctor/versions.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <gnu/libc-version.h>
#include <sys/utsname.h>

#include <fstream>

#include "data/subprocess.h"
#include "doctor/area.h"
#include "doctor/sources.h"
#include "lockstep/error.h"
#include "transport/mpi.h"

namespace lockstep::doctor {
namespace {

constexpr const char* kCompiler =
#ifdef __clang__
    "Clang " __clang_version__;
#else
    "GCC " __VERSION__;
#endif

// The file of a library that this process has loaded: "/usr/lib/libmpi.so.40"; "" if it has not.
std::string loaded_file(const std::string& beginning) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const size_t path = line.find('/');
    if (path == std::string::npos) continue;
    const size_t name = line.rfind('/') + 1;
    if (line.compare(name, beginning.size(), beginning) == 0) return line.substr(path);
  }
  return "";
}

// 22005 -> "2.20.5".
std::string nccl_version() {
  void* const nccl = dlopen("libnccl.so.2", RTLD_LAZY | RTLD_NOLOAD);
  if (nccl == nullptr) return "";
  const auto ask = reinterpret_cast<int (*)(int*)>(dlsym(nccl, "ncclGetVersion"));
  int number = 0;
  if (ask == nullptr || ask(&number) != 0) number = 0;
  dlclose(nccl);
  return fmt::format("{}.{}.{}", number / 10000, number / 100 % 100, number % 100);
}

std::string slurm_version() {
  constexpr std::chrono::seconds kLongest{2};
  try {
    const auto answer = data::run_program({"srun", "--version"}, kLongest);
    if (!answer) return "";
    return answer->exit_code == 0 ? answer->output.substr(0, answer->output.find('\n'))
                                  : "srun is there, but belongs to no cluster";
  } catch (const BadInput&) {
    return fmt::format("srun --version did not end within {} s", kLongest.count());
  }
}

// PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"
std::string system_name(const std::filesystem::path& root) {
  const std::string name = "PRETTY_NAME=";
  std::ifstream file(root / "etc/os-release");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(name) && line.size() > name.size() + 2)
      return line.substr(name.size() + 1, line.size() - name.size() - 2);
  return "unknown";
}

// A machine may lack the MPI with which this program was built.
void ask_mpi(VersionFacts& facts) {
  try {
    facts.mpi = transport::mpi_version();
  } catch (const Error& error) {
    facts.mpi_failure = error.what();
  }
  facts.mpi_file = loaded_file("libmpi.so");
  if (facts.mpi_file.empty()) facts.mpi_file = loaded_file("libmpich.so");
}

VersionFacts gather_versions(const Visit& visit) {
  utsname kernel = {};
  uname(&kernel);
  VersionFacts facts{.lockstep = LOCKSTEP_VERSION,
                     .compiler = kCompiler,
                     .library_failure = visit.library.failure,
                     .nccl = nccl_version(),
                     .slurm = slurm_version(),
                     .kernel = fmt::format("{} {}", kernel.sysname, kernel.release),
                     .glibc = gnu_get_libc_version(),
                     .system = system_name(visit.root)};
  ask_mpi(facts);
  if (visit.library.facts) {
    facts.libtorch = visit.library.facts->version;
    facts.onednn = visit.library.facts->onednn;
  }
  return facts;
}

std::string text_or(const std::string& text, const char* otherwise) {
  return text.empty() ? otherwise : text;
}

std::vector<Fact> facts_of(const VersionFacts& facts) {
  return {{"Lockstep", facts.lockstep},
          {"compiler", facts.compiler},
          {"LibTorch", facts.libtorch, text_or(facts.libtorch, "cannot be loaded")},
          {"oneDNN", facts.onednn, text_or(facts.onednn, "unknown")},
          {"MPI", facts.mpi,
           facts.mpi == "none" ? "not built in" : text_or(facts.mpi, "cannot be loaded")},
          {"MPI library", facts.mpi_file, text_or(facts.mpi_file, "none")},
          {"NCCL", facts.nccl, text_or(facts.nccl, "none is loaded")},
          {"Slurm", facts.slurm, text_or(facts.slurm, "no srun in the PATH")},
          {"kernel", facts.kernel},
          {"glibc", facts.glibc},
          {"system", facts.system}};
}

Section examine_versions(const Visit& visit) {
  const VersionFacts facts = gather_versions(visit);
  return {facts_of(facts), judge(facts)};
}

const bool versions_added =
    areas().add({"versions", "versions of this program and of what it uses", 50, examine_versions});

}  // namespace

std::vector<Finding> judge(const VersionFacts& facts) {
  std::vector<Finding> findings;
  if (!facts.library_failure.empty())
    findings.push_back(
        {.id = "versions.library",
         .severity = Severity::problem,
         .what = facts.library_failure,
         .why = "nothing can be trained or evaluated",
         .cure = "build or install Lockstep again; ldd on the library shows what it misses"});
  if (!facts.mpi_failure.empty())
    findings.push_back(
        {.id = "versions.mpi",
         .what = facts.mpi_failure,
         .why = "the transports mpi and hybrid-mpi cannot be used; all else can",
         .cure = "ldd on that library shows what it misses; workers that mpirun starts can use "
                 "--transport hybrid"});
  return findings;
}

}  // namespace lockstep::doctor
