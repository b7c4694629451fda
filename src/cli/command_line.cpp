#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/nearest.h"
#include "base/shipped.h"
#include "cli/command.h"
#include "lockstep/error.h"
#include "lockstep/main.h"

namespace lockstep::cli {
namespace {

constexpr int kBadInput = 2;

std::vector<std::string> flags_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

std::vector<std::string> commands_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  return names;
}

std::string full_name(const CLI::App& app) {
  return app.get_parent() == nullptr ? app.get_name()
                                     : full_name(*app.get_parent()) + " " + app.get_name();
}

// CLI11 keeps unknown words aside (allow_extras); this reports them with the nearest known word.
void refuse_unknown_words(const CLI::App& app) {
  const std::vector<std::string> words = app.remaining();
  if (words.empty()) return;
  const std::string& word = words.front();
  const std::string help = fmt::format("; see {} --help", full_name(app));
  if (word.starts_with("-"))
    throw BadInput("unknown flag '{}'{}{}", word, did_you_mean(word, flags_of(app)), help);
  const std::vector<std::string> commands = commands_of(app);
  if (!commands.empty())
    throw BadInput("unknown command '{}'{}{}", word, did_you_mean(word, commands), help);
  if (app.get_name() == "run")
    throw BadInput(
        "unexpected argument '{}': put -- before the program, as in: lockstep run -n 2 -- {}", word,
        fmt::join(words, " "));
  throw BadInput("unexpected argument '{}'{}", word, help);
}

// CLI11 reports a repeated flag as "--batch: At Most 1 required but received 2".
std::string in_our_words(const std::string& complaint) {
  for (const char* complained : {": At Most 1 required", ": At most 1 required"})
    if (const size_t twice = complaint.find(complained); twice != std::string::npos)
      return fmt::format("{}: given more than once; give it once", complaint.substr(0, twice));
  return complaint;
}

// The option of a command that was given this value; nullptr if there is none.
const CLI::Option* option_given(const CLI::App& app, const std::string& name,
                                const std::string& value) {
  const CLI::Option* const option = app.get_option_no_throw(name);
  if (option != nullptr && option->count() > 0 && option->results().back() == value) return option;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    if (const CLI::Option* const found = option_given(*command, name, value)) return found;
  return nullptr;
}

// CLI11 reports a value that is no number as "Could not convert: --latency = 1ms".
std::string with_expectation(const std::string& complaint, const CLI::App& app) {
  const size_t colon = complaint.find(": ");
  const size_t equals = complaint.find(" = ");
  if (colon == std::string::npos || equals == std::string::npos || equals < colon) return complaint;
  const std::string name = complaint.substr(colon + 2, equals - colon - 2);
  const std::string value = complaint.substr(equals + 3);
  const CLI::Option* const option = option_given(app, name, value);
  return fmt::format("{} {}: expected a number{}", name, value,
                     option == nullptr ? "" : "; " + name + " is: " + option->get_description());
}

// CLI11 2.6 would fold texts, also the examples below them.
template <typename Formatter>
void keep_lines(Formatter& formatter) {
  constexpr size_t kWide = 200;
  if constexpr (requires { formatter.enable_footer_formatting(false); }) {
    formatter.enable_description_formatting(false);
    formatter.enable_footer_formatting(false);
    formatter.right_column_width(kWide);
  }
}

// Help texts as all versions of CLI11 can write them.
class HelpFormatter : public CLI::Formatter {
 public:
  HelpFormatter() { keep_lines(*this); }

  std::string make_usage(const CLI::App* app, std::string name) const override {
    const std::string usage = CLI::Formatter::make_usage(app, std::move(name));
    return usage.starts_with("Usage") ? usage
                                      : "Usage: " + usage.substr(usage.find_first_not_of('\n'));
  }
};

// Removes the words after the first -- from argv and returns them: they belong to `lockstep run`'s
// program.
std::vector<std::string> words_after_dashes(int& argc, char** argv) {
  char** const end = argv + argc;
  char** const dashes =
      std::find_if(argv, end, [](const char* word) { return std::string_view(word) == "--"; });
  argc = static_cast<int>(dashes - argv);
  return dashes == end ? std::vector<std::string>() : std::vector<std::string>(dashes + 1, end);
}

int run(int argc, char** argv) {
  const std::vector<std::string> program = words_after_dashes(argc, argv);
  CLI::App app("Trains deep networks on many workers, on LibTorch.", "lockstep");
  app.formatter(std::make_shared<HelpFormatter>());
  app.set_version_flag("--version", LOCKSTEP_VERSION);
  app.footer(
      fmt::format("Start with:  lockstep train {}\n"
                  "Help for a command:  lockstep COMMAND --help\n"
                  "Documentation:  {}",
                  shipped("recipes/fashion-convnet.toml"), shipped("README.md")));
  std::vector<std::unique_ptr<Command>> commands;
  commands.push_back(add_train(app));
  commands.push_back(add_evaluate(app));
  commands.push_back(add_predict(app));
  commands.push_back(add_run(app, program));
  for (auto& command : add_data(app)) commands.push_back(std::move(command));
  commands.push_back(add_workers(app));
  commands.push_back(add_list(app));
  commands.push_back(add_doctor(app));
  commands.push_back(add_compare(app));
  commands.push_back(add_bench(app));
  for (auto& command : add_explain(app)) commands.push_back(std::move(command));
  for (auto& command : add_lab(app)) commands.push_back(std::move(command));
  commands.push_back(add_fit(app));
  commands.push_back(add_matpow(app));
  app.require_subcommand(0, 1);
  app.allow_extras();

  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& asked_for_help) {
    return app.exit(asked_for_help);
  } catch (const CLI::ArgumentMismatch& error) {
    throw BadInput("{}", in_our_words(error.what()));
  } catch (const CLI::ConversionError& error) {
    throw BadInput("{}", with_expectation(error.what(), app));
  } catch (const CLI::ParseError& error) {
    throw BadInput("{}", error.what());
  }
  refuse_unknown_words(app);
  for (const auto& command : commands) {
    if (!command->app().parsed()) continue;
    refuse_unknown_words(*command->app().get_parent());
    refuse_unknown_words(command->app());
    return command->run();
  }
  for (const CLI::App* group : app.get_subcommands()) {
    refuse_unknown_words(*group);
    fmt::print(stderr, "{}", group->help(full_name(app)));
    return kBadInput;
  }
  fmt::print(stderr, "{}", app.help());
  return kBadInput;
}

// If stdin, stdout or stderr is closed, the next opened file would get its number, and our
// messages. Without any of them a program goes on unseen; but where only stdout is closed, what is
// written there is missed, so that writing must fail.
void open_standard_descriptors() {
  const auto is_closed = [](int descriptor) { return fcntl(descriptor, F_GETFD) < 0; };
  const bool unseen = is_closed(STDERR_FILENO);
  for (int descriptor = 0; descriptor <= 2; ++descriptor)
    if (is_closed(descriptor))
      static_cast<void>(
          open("/dev/null", descriptor == STDOUT_FILENO && !unseen ? O_RDONLY : O_RDWR));
}

// Uses fputs, because fmt::print throws when stderr cannot be written.
void complain(std::string message) {
  message.resize(std::min(message.size(), message.find('\n')));  // LibTorch adds a stack trace
  std::fputs(fmt::format("lockstep: {}\n", message).c_str(), stderr);
}

}  // namespace
}  // namespace lockstep::cli

int lockstep::main(int argc, char** argv) {
  using namespace cli;
  open_standard_descriptors();
  try {
    const int code = run(argc, argv);
    if (std::fflush(stdout) == 0) return code;
    complain("cannot write to stdout");
    return 1;
  } catch (const Error& error) {
    complain(error.what());
    return error.exit_code();
  } catch (const std::filesystem::filesystem_error& error) {
    complain(fmt::format("{}: {}", error.path1().string(), error.code().message()));
    return kBadInput;
  } catch (const std::exception& error) {
    complain(fmt::format("unexpected error: {}", error.what()));
    return 1;
  }
}
