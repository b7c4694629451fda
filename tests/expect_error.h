#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

#include "lockstep/error.h"

namespace lockstep {

/// The message of the exception of type E that `action` throws; fails the test when it throws none.
template <typename E, typename Action>
std::string message_of(Action&& action) {
  try {
    action();
  } catch (const E& error) {
    return error.what();
  }
  ADD_FAILURE() << "expected an exception";
  return "";
}

inline bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// Expects BadInput whose message has all of `parts`.
template <typename Call>
void expect_bad_input(Call call, std::initializer_list<std::string> parts) {
  try {
    call();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const BadInput& error) {
    for (const std::string& part : parts)
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos)
          << "'" << part << "' is not in: " << error.what();
  }
}

}  // namespace lockstep
