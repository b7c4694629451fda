#pragma once

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <cstdint>
#include <exception>
#include <new>
#include <string>

#include "base/model_error.h"
#include "lockstep/error.h"

namespace lockstep::train {

/// Where a function of a model or an objective is called: in step 3, in evaluation batch 3.
struct CallPlace {
  const char* kind;
  int64_t number;
  int64_t samples;        ///< of the batch that it is called for
  const char* hint = "";  ///< what to do about an exception there
};

/// Calls a function of a model or an objective, which may be a user's. An exception from it is
/// thrown again as a ModelError that names the function and the place, a lack of memory as an
/// Error; BadInput, which Lockstep's classes throw inside such functions, as BadInput. Lockstep's
/// other exceptions pass unchanged: callers tell a lost worker from other errors by them.
template <typename Function>
auto call_user_code(const char* name, const CallPlace& place, const Function& function) {
  const auto described = [&](const char* what, const std::string& why) {
    return fmt::format("{}{} in {} {} (for {} sample{}): {}{}", name, what, place.kind,
                       place.number, place.samples, place.samples == 1 ? "" : "s", why, place.hint);
  };
  const auto failure = [&](const std::string& why) {
    return ModelError(described(" threw an exception", why));
  };
  try {
    return function();
  } catch (const BadInput& error) {
    throw BadInput("{}", described("", error.what()));
  } catch (const Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw Error(described(" found no memory", "this host has too little"));
  } catch (const c10::Error& error) {
    throw failure(error.what_without_backtrace());
  } catch (const std::exception& error) {
    throw failure(error.what());
  } catch (...) {
    throw failure("it is not a std::exception");
  }
}

}  // namespace lockstep::train
