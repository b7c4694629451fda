#include "train/plugins.h"

#include <dlfcn.h>
#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <utility>

#include "base/plugin_queue.h"
#include "data/datasets.h"
#include "lockstep/error.h"
#include "model/models.h"
#include "objective/objectives.h"

namespace lockstep {
namespace {

void check_name(const std::string& name) {
  const bool good = !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '_';
  });
  if (!good)
    throw BadInput("'{}' is not a valid name: expected letters, digits, '-' and '_'", name);
}

void check_about(const std::string& name, const std::string& about) {
  const bool one_line =
      std::ranges::none_of(about, [](unsigned char c) { return std::iscntrl(c); });
  if (about.empty() || !one_line)
    throw BadInput("'{}' needs a description of one line, for `lockstep list`", name);
}

template <typename Table, typename Row>
void add(Table& table, Row row) {
  check_name(row.name);
  check_about(row.name, row.about);
  if (row.make == nullptr)
    throw BadInput("{} '{}': the maker function is null", table.kind(), row.name);
  table.add(std::move(row));
}

}  // namespace

void Registry::add_model(const std::string& name, const std::string& about, MakeModel make) {
  add(model::models(), model::ModelRow{name, about, make});
}

void Registry::add_objective(const std::string& name, const std::string& about,
                             MakeObjective make) {
  add(objective::objectives(), objective::ObjectiveRow{name, about, make});
}

void Registry::add_dataset(const std::string& name, const std::string& about, MakeDataset make) {
  add(data::datasets(), data::DatasetRow{name, about, "", make});
}

namespace train {
namespace {

std::string last_loader_error() {
  const char* const error = dlerror();
  return error == nullptr ? "no reason given" : error;
}

void call_waiting() {
  Registry registry;
  for (const Plugin plugin : std::exchange(waiting_plugins(), {})) plugin(registry);
}

// The loader maps a file that is shorter than its tables say, and dies of SIGBUS in it.
void require_whole(const std::string& name) {
  std::ifstream file(name, std::ios::binary);
  const auto bytes = std::filesystem::file_size(name);
  Elf64_Ehdr header = {};
  if (!file.read(reinterpret_cast<char*>(&header), sizeof header)) return;  // the loader says why
  if (!std::equal(header.e_ident, header.e_ident + SELFMAG, ELFMAG)) return;
  if (header.e_shoff + uint64_t{header.e_shnum} * header.e_shentsize > bytes)
    throw BadInput("--load {}: is incomplete: it has only {} bytes; build or copy it again", name,
                   bytes);
}

using Build = const char* (*)();

// Called before any plugin code that depends on the layout of Lockstep's types.
void require_same_build(void* library, const std::string& name) {
  void* const symbol = dlsym(library, "lockstep_plugin_build");
  if (symbol == nullptr)
    throw BadInput("--load {}: is not a Lockstep plugin: it has no LOCKSTEP_PLUGIN", name);
  const std::string built = reinterpret_cast<Build>(symbol)();
  if (built != LOCKSTEP_BUILD)
    throw BadInput("--load {}: was built for {}, but this is {}; rebuild it", name, built,
                   LOCKSTEP_BUILD);
}

}  // namespace

void register_linked_plugins() {
  try {
    call_waiting();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw BadInput("a plugin of this program threw an exception: {}", error.what());
  }
}

void load_plugin(const std::string& name) {
  if (!std::filesystem::exists(name)) throw BadInput("--load {}: no such file", name);
  if (!std::filesystem::is_regular_file(name))
    throw BadInput("--load {}: is not a regular file", name);
  require_whole(name);
  void* const library =
      dlopen(std::filesystem::absolute(name).c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr)
    throw BadInput("--load {}: cannot be loaded: {}", name, last_loader_error());
  try {
    require_same_build(library, name);
    call_waiting();
  } catch (const BadInput& error) {
    waiting_plugins().clear();
    const std::string message = error.what();
    if (message.starts_with("--load")) throw;
    throw BadInput("--load {}: {}", name, message);
  } catch (const std::exception& error) {
    waiting_plugins().clear();
    throw BadInput("--load {}: threw an exception: {}", name, error.what());
  } catch (...) {
    waiting_plugins().clear();
    throw BadInput("--load {}: threw an exception that is not a std::exception", name);
  }
}

}  // namespace train
}  // namespace lockstep
