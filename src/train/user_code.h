#pragma once

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <cstdint>
#include <exception>
#include <string>

#include "lockstep/error.h"

namespace lockstep::train {

/// Where a function of a model or an objective is called: in step 3, in evaluation batch 3.
struct CallPlace {
  const char* kind;
  int64_t number;
};

/// Calls a function of a model or an objective, which may be a user's. An exception from it is
/// thrown again as an Error that names the function and the place. Lockstep's own exceptions pass
/// unchanged: callers tell a lost worker from other errors by them.
template <typename Function>
auto call_user_code(const char* name, const CallPlace& place, const Function& function) {
  const auto failure = [&](const std::string& why) {
    return Error(
        fmt::format("{} threw an exception in {} {}: {}", name, place.kind, place.number, why));
  };
  try {
    return function();
  } catch (const Error&) {
    throw;
  } catch (const c10::Error& error) {
    throw failure(error.what_without_backtrace());
  } catch (const std::exception& error) {
    throw failure(error.what());
  } catch (...) {
    throw failure("it is not a std::exception");
  }
}

}  // namespace lockstep::train
