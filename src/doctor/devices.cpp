#include "doctor/devices.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/units.h"
#include "device/visible.h"
#include "doctor/area.h"
#include "doctor/sources.h"
#include "lockstep/error.h"

namespace lockstep::doctor {
namespace {

namespace fs = std::filesystem;

constexpr const char* kNvidia = "0x10de";
constexpr const char* kDisplayController = "0x03";

constexpr const char* kCudas = "CUDA_VISIBLE_DEVICES";
constexpr const char* kVariables[] = {"LOCKSTEP_VISIBLE_DEVICES", kCudas};

// What `USE_CUDA=` is in LibTorch's description of its build: "ON", "OFF", "1", "0", or "".
std::string build_setting(const std::string& build, const std::string& name) {
  const size_t begin = build.find(name + "=");
  if (begin == std::string::npos) return "";
  const size_t value = begin + name.size() + 1;
  return build.substr(value, build.find_first_of(",\n ", value) - value);
}

std::vector<VisibleDevices> variables_set() {
  std::vector<VisibleDevices> set;
  for (const char* const name : kVariables)
    if (const auto value = variable(name)) {
      const bool none = value->empty() || *value == "-1" || *value == "none";
      set.push_back(
          {name, *value,
           none ? 0 : 1 + static_cast<int>(std::count(value->begin(), value->end(), ','))});
    }
  return set;
}

std::string refusal_by(const std::string& kind, int count, const VisibleVariables& variables) {
  try {
    visible_devices(kind, count, variables);
    return "";
  } catch (const BadInput& refused) {
    return refused.what();
  }
}

DeviceFacts gather_devices(const Visit& visit) {
  DeviceFacts facts{.gpus = gpus_plugged_in(visit.root), .visible = variables_set()};
  if (const auto& library = visit.library.facts) {
    const std::string use_cuda = build_setting(library->build, "USE_CUDA");
    facts.seen = library->cuda_devices;
    facts.libtorch_has_cuda = use_cuda == "ON" || use_cuda == "1";
    facts.libtorch_build = fmt::format("LibTorch {}, USE_CUDA={}", library->version,
                                       use_cuda.empty() ? "OFF" : use_cuda);
  }
  const bool has_cuda = facts.gpus > 0 && facts.libtorch_has_cuda;
  facts.refused = refusal_of(visible_variables(), has_cuda ? facts.seen : std::nullopt);
  return facts;
}

std::string describe_cuda(const DeviceFacts& facts) {
  return fmt::format(
      "{} plugged in, {}", facts.gpus == 0 ? "no GPU" : plural(facts.gpus, "GPU"),
      facts.seen ? fmt::format("{} seen by LibTorch", *facts.seen) : "LibTorch could not be asked");
}

std::vector<Fact> facts_of(const DeviceFacts& facts) {
  std::vector<Fact> all = {
      {"cpu", 1, "the cores of this process"},
      {"virtual", Json(), "as many as asked for (--device virtual)"},
      {"cuda",
       {{"plugged_in", facts.gpus}, {"seen", facts.seen ? Json(*facts.seen) : Json()}},
       describe_cuda(facts)}};
  Json visible = Json::object();
  std::vector<std::string> shown;
  for (const VisibleDevices& each : facts.visible) {
    visible[each.variable] = each.value;
    shown.push_back(fmt::format("{}={}", each.variable, each.value));
  }
  all.push_back({"hidden by", visible,
                 shown.empty() ? "no variable is set" : fmt::format("{}", fmt::join(shown, ", "))});
  return all;
}

Section examine_devices(const Visit& visit) {
  const DeviceFacts facts = gather_devices(visit);
  return {facts_of(facts), judge(facts)};
}

const bool devices_added = areas().add(
    {"devices", "devices there are and which of them are visible", 30, examine_devices});

// CUDA applies its own variable, so that LibTorch counts what is left; LOCKSTEP_VISIBLE_DEVICES
// chooses from these, of which LibTorch knows nothing.
struct Visible {
  int before;  ///< the variable
  int after;
};
Visible visible_by(const VisibleDevices& variable, const DeviceFacts& facts) {
  const std::optional<int> seen = facts.libtorch_has_cuda ? facts.seen : std::nullopt;
  if (variable.variable == kCudas) return {facts.gpus, seen.value_or(variable.listed)};
  return {seen.value_or(facts.gpus), variable.listed};
}

bool hides(const VisibleDevices& variable, const DeviceFacts& facts) {
  return variable.listed < visible_by(variable, facts).before;
}

Finding hidden_by(const VisibleDevices& variable, const DeviceFacts& facts) {
  const int seen = visible_by(variable, facts).after;
  return {.id = "devices.hidden",
          .severity = seen == 0 ? Severity::problem : Severity::advice,
          .what = fmt::format("{}={} hides GPUs: {} plugged in, {} seen", variable.variable,
                              variable.value.empty() ? "''" : variable.value,
                              facts.gpus == 1 ? "1 is" : fmt::format("{} are", facts.gpus),
                              seen == 1 ? "1 is" : fmt::format("{} are", seen)),
          .why = "no worker can use the others",
          .cure = fmt::format("unset {}; under Slurm ask for more: srun --gpus-per-node {}",
                              variable.variable, facts.gpus)};
}

}  // namespace

int gpus_plugged_in(const fs::path& root) {
  int gpus = 0;
  std::error_code ignored;
  for (const auto& device : fs::directory_iterator(root / "sys/bus/pci/devices", ignored)) {
    const std::string vendor = first_line(device.path() / "vendor").value_or("");
    const std::string kind = first_line(device.path() / "class").value_or("");
    if (vendor == kNvidia && kind.starts_with(kDisplayController)) ++gpus;
  }
  return gpus;
}

std::string refusal_of(const VisibleVariables& variables, std::optional<int> cuda_devices) {
  std::string refused = refusal_by("virtual", kMostVirtualDevices, variables);
  if (!refused.empty() || !cuda_devices) return refused;
  return refusal_by("cuda", *cuda_devices, variables);
}

std::vector<Finding> judge(const DeviceFacts& facts) {
  std::vector<Finding> findings;
  if (!facts.refused.empty())
    findings.push_back({.id = "devices.refused",
                        .severity = Severity::problem,
                        .what = facts.refused,
                        .why = "runs on devices end with this error",
                        .cure = "list each device once, such as 0,1, or unset the variable"});
  if (facts.gpus == 0) return findings;
  bool cuda_hides = false;
  for (const VisibleDevices& variable : facts.visible) {
    if (!hides(variable, facts)) continue;
    findings.push_back(hidden_by(variable, facts));
    cuda_hides = cuda_hides || variable.variable == kCudas;
  }
  if (facts.seen && !facts.libtorch_has_cuda)
    findings.push_back(
        {.id = "devices.libtorch_without_cuda",
         .severity = Severity::problem,
         .what = fmt::format("{} plugged in, but LibTorch was built without CUDA ({})",
                             facts.gpus == 1 ? "1 GPU is" : fmt::format("{} GPUs are", facts.gpus),
                             facts.libtorch_build),
         .why = "it computes on the CPU only",
         .cure = "install a LibTorch with CUDA (Debian 13, contrib: libtorch-cuda-dev) and build "
                 "Lockstep again with it"});
  else if (facts.seen && !cuda_hides && *facts.seen < facts.gpus)
    findings.push_back(
        {.id = "devices.not_seen",
         .severity = Severity::problem,
         .what = fmt::format("LibTorch sees {} of {}", *facts.seen, plural(facts.gpus, "GPU")),
         .why = "no worker can use the others",
         .cure = "see whether the driver has them all: nvidia-smi; in a container: "
                 "docker run --gpus all"});
  return findings;
}

}  // namespace lockstep::doctor
