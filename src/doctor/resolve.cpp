#include "doctor/resolve.h"

#include <fmt/format.h>

#include <chrono>
#include <future>
#include <thread>
#include <utility>

#include "lockstep/error.h"

namespace lockstep::doctor {
namespace {

Resolved resolve_now(const std::string& host, uint16_t port) {
  try {
    const auto addresses = net::resolve(host, port);
    return {addresses, addresses.empty() ? "the name service does not answer" : ""};
  } catch (const BadInput&) {
    return {{}, "no such host"};
  }
}

}  // namespace

Resolved resolve_within(double seconds, const std::string& host, uint16_t port) {
  std::packaged_task<Resolved()> task([host, port] { return resolve_now(host, port); });
  std::future<Resolved> answer = task.get_future();
  std::thread(std::move(task)).detach();  // the system's resolver cannot be interrupted
  if (answer.wait_for(std::chrono::duration<double>(seconds)) == std::future_status::ready)
    return answer.get();
  return {{}, fmt::format("the name service did not answer within {:g} s", seconds)};
}

}  // namespace lockstep::doctor
