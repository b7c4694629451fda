#include "launch/own_process.h"

#include <cxxabi.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <typeinfo>

#include "lockstep/error.h"

namespace lockstep::launch {
namespace {

// Globals, because a terminate handler has no other access to them.
std::atomic<int> own_rank = -1;
std::atomic<std::terminate_handler> handler_before = nullptr;
std::atomic_flag process_is_ending = ATOMIC_FLAG_INIT;

std::string with_rank(const std::string& message) {
  const std::string rank = fmt::format("rank {}", own_rank.load());
  if (own_rank < 0 || message.starts_with(rank)) return message;
  return fmt::format("{}: {}", rank, message);
}

[[noreturn]] void end_by(const Error& error) {
  while (process_is_ending.test_and_set()) pause();  // another thread is ending the process
  std::fflush(stdout);
  std::fputs(fmt::format("lockstep: {}\n", with_rank(error.what())).c_str(), stderr);
  std::_Exit(error.exit_code());
}

std::string type_of(const std::exception& error) {
  const char* const mangled = typeid(error).name();
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> name(
      abi::__cxa_demangle(mangled, nullptr, nullptr, &status), &std::free);
  return name ? name.get() : mangled;
}

// LibTorch appends a stack of dozens of frames to a message, after which nobody sees the message.
std::string without_far_frames(std::string text) {
  constexpr int kFrames = 5;
  size_t end = text.find("\nframe #");
  for (int frame = 0; frame < kFrames && end != std::string::npos; ++frame)
    end = text.find("\nframe #", end + 1);
  if (end != std::string::npos) text.resize(end);
  return text;
}

[[noreturn]] void abort_by(const std::exception& error) {
  while (process_is_ending.test_and_set()) pause();
  std::fflush(stdout);
  const std::string message =
      with_rank(fmt::format("uncaught {}: {}", type_of(error), without_far_frames(error.what())));
  std::fputs(fmt::format("lockstep: {}\n", message).c_str(), stderr);
  std::abort();
}

[[noreturn]] void on_terminate() {
  try {
    if (const std::exception_ptr thrown = std::current_exception()) std::rethrow_exception(thrown);
  } catch (const Error& error) {
    end_by(error);
  } catch (const std::exception& error) {
    abort_by(error);
  } catch (...) {
  }
  if (const std::terminate_handler before = handler_before) before();
  std::abort();
}

}  // namespace

void end_by_uncaught_errors() {
  if (std::get_terminate() != on_terminate) handler_before = std::set_terminate(on_terminate);
}

void become_rank(int rank) {
  own_rank = rank;
  if (isatty(STDOUT_FILENO) != 0) return;
  // With its own buffer: glibc ignores a new mode for the buffer that stdout already uses.
  static std::array<char, BUFSIZ> lines;
  std::setvbuf(stdout, lines.data(), _IOLBF, lines.size());
}

}  // namespace lockstep::launch
