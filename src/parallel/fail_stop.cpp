#include "parallel/fail_stop.h"

namespace lockstep::parallel {

std::string text_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& known) {
    return known.what();
  } catch (...) {
    return "an exception that is not a std::exception";
  }
}

void FailStop::check() const {
  if (!error_) return;
  try {
    std::rethrow_exception(error_);
  } catch (const PeerLost&) {
    throw;
  } catch (const Timeout&) {
    throw;
  } catch (...) {
    throw Error(
        fmt::format("rank {} aborted earlier: {}", worlds_.front().rank(), text_of(error_)));
  }
}

void FailStop::fail(const std::exception_ptr& error) {
  if (error_) return;
  error_ = error;
  const std::string why = text_of(error);
  for (World& world : worlds_) world.abort(why);
}

}  // namespace lockstep::parallel
