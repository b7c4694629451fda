#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/placement_flags.h"
#include "device/kinds.h"
#include "doctor/examine.h"
#include "launch/hosts_file.h"
#include "lockstep/error.h"
#include "recipe/recipe.h"

namespace lockstep::cli {
namespace {

struct DoctorFlags {
  std::string hosts;  ///< names or a file
  launch::SshOptions ssh = {.command = "ssh", .lockstep = "", .connect_seconds = 5};
  bool self_test = false;
  std::optional<std::string> device;
  bool json = false;
};

std::vector<launch::ListedHost> hosts_of(const std::string& names_or_file) {
  if (names_or_file.empty()) return {};
  const bool is_file = std::filesystem::is_regular_file(names_or_file) ||
                       names_or_file.find('/') != std::string::npos;
  return is_file ? launch::read_hosts(names_or_file, 1) : launch::parse_hosts(names_or_file);
}

doctor::Request request_from(const DoctorFlags& flags) {
  constexpr double kShortest = 0.1;
  constexpr double kLongest = 3600;
  if (!(flags.ssh.connect_seconds >= kShortest && flags.ssh.connect_seconds <= kLongest))
    throw BadInput("--timeout {}: expected {} to {} seconds", flags.ssh.connect_seconds, kShortest,
                   kLongest);
  if (flags.device && !flags.self_test)
    throw BadInput("--device {}: it is the device of --self-test; give that too", *flags.device);
  doctor::Request request{.hosts = hosts_of(flags.hosts), .ssh = flags.ssh};
  if (request.ssh.lockstep.empty())
    request.ssh.lockstep = std::filesystem::read_symlink("/proc/self/exe").string();
  if (flags.self_test) {
    Recipe recipe;
    set(recipe, "device.kind", flags.device.value_or("cpu"));
    validate(recipe);
    request.self_test = recipe.device.kind;
  }
  return request;
}

int run_doctor(const DoctorFlags& flags) {
  const auto sections = doctor::examine(request_from(flags));
  fmt::print("{}", flags.json ? to_json(sections).dump(2) + "\n" : to_text(sections));
  return exit_code_of(sections);
}

class DoctorCommand final : public Command {
 public:
  explicit DoctorCommand(CLI::App& parent)
      : Command(parent, "doctor", "Show what this machine has, what is wrong, and what to do") {
    app()
        .add_option("--hosts", flags_.hosts,
                    "other hosts, each reached over ssh: names, or a file as for lockstep run")
        ->type_name("A,B,...|FILE");
    add_ssh_flags(app(), flags_.ssh);
    app()
        .add_option("--timeout", flags_.ssh.connect_seconds, "for each of them (default 5)")
        ->type_name("SECONDS");
    app().add_flag("--self-test", flags_.self_test,
                   "train 20 steps on one and on two devices, and compare speed and models");
    app()
        .add_option(
            "--device", flags_.device,
            fmt::format("their kind: {} (default: cpu)", fmt::join(device_kinds().names(), ", ")))
        ->type_name("KIND");
    app().add_flag("--json", flags_.json, "print facts and findings as one JSON object");
    app().footer(
        fmt::format("It looks at:\n{}"
                    "Exit code: 0 if there is no problem, 1 if there is one, 2 for wrong flags.\n"
                    "Examples:\n"
                    "  lockstep doctor\n"
                    "  lockstep doctor --self-test\n"
                    "  lockstep doctor --hosts node1,node2 --timeout 2\n"
                    "  lockstep doctor --json | jq '.findings[].do'",
                    doctor::areas().help()));
  }

  int run() override { return run_doctor(flags_); }

 private:
  DoctorFlags flags_;
};

}  // namespace

std::unique_ptr<Command> add_doctor(CLI::App& parent) {
  return std::make_unique<DoctorCommand>(parent);
}

}  // namespace lockstep::cli
