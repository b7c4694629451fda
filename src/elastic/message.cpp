#include "elastic/message.h"

#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>

namespace lockstep::elastic {
namespace {

using nlohmann::json;

// Texts may contain any bytes: a host's name, a path.
std::string written(const char* kind, json body) {
  body["kind"] = kind;
  return body.dump(-1, ' ', false, json::error_handler_t::replace);
}

// Refuses fractions and numbers out of range, which are no valid rank or step.
template <typename Number = int64_t>
Number whole(const json& body, const char* key) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  const json& value = body.at(key);
  const int64_t number = value.is_number_integer() ? value.get<int64_t>() : kMost + 1;
  if (number < -kMost || number > kMost)
    throw json::out_of_range::create(401, fmt::format("'{}' is no such number", key), &body);
  return static_cast<Number>(number);
}

// Reads a message of the given kind; nothing for anything else.
template <typename Read>
auto read(const std::string& text, const char* kind, const Read& members)
    -> std::optional<decltype(members(json{}))> {
  try {
    const json body = json::parse(text);
    if (body.at("kind").get<std::string>() != kind) return std::nullopt;
    return members(body);
  } catch (const json::exception&) {
    return std::nullopt;
  }
}

}  // namespace

std::string encode(const Hello& hello) {
  return written("hello", {{"facts", hello.facts},
                           {"host", hello.host},
                           {"identity", hello.identity},
                           {"pid", hello.pid}});
}
std::string encode(const Ready& ready) {
  return written("ready",
                 {{"generation", ready.generation}, {"step", ready.step}, {"why", ready.why}});
}
std::string encode(const Beat& beat) {
  return written("beat", {{"step", beat.step}});
}
std::string encode(const Bye&) {
  return written("bye", json::object());
}
std::string encode(const Resign&) {
  return written("resign", json::object());
}
std::string encode(const Fail& fail) {
  return written("fail", {{"why", fail.why}, {"exit_code", fail.exit_code}});
}
std::string encode(const Control& control) {
  json body = json::object();
  if (control.workers) body["workers"] = *control.workers;
  return written("control", body);
}
std::string encode(const Go& go) {
  return written("go", {{"generation", go.generation},
                        {"rank", go.rank},
                        {"world", go.world},
                        {"port", go.port},
                        {"last", go.last},
                        {"why", go.why}});
}
std::string encode(const Leave& leave) {
  return written(
      "leave", {{"generation", leave.generation}, {"at_once", leave.at_once}, {"why", leave.why}});
}
std::string encode(const Dismiss& dismiss) {
  return written("dismiss", {{"refused", dismiss.refused}, {"why", dismiss.why}});
}
std::string encode(const Status& status) {
  return written("status", {{"text", status.text}, {"refused", status.refused}});
}

template <>
std::optional<Hello> parse(const std::string& text) {
  return read(text, "hello", [](const json& body) {
    return Hello{.facts = body.at("facts").get<Facts>(),
                 .host = body.at("host"),
                 .identity = body.at("identity"),
                 .pid = whole<int>(body, "pid")};
  });
}
template <>
std::optional<Ready> parse(const std::string& text) {
  return read(text, "ready", [](const json& body) {
    return Ready{.generation = whole(body, "generation"),
                 .step = whole(body, "step"),
                 .why = body.at("why")};
  });
}
template <>
std::optional<Beat> parse(const std::string& text) {
  return read(text, "beat", [](const json& body) { return Beat{.step = whole(body, "step")}; });
}
template <>
std::optional<Bye> parse(const std::string& text) {
  return read(text, "bye", [](const json&) { return Bye{}; });
}
template <>
std::optional<Resign> parse(const std::string& text) {
  return read(text, "resign", [](const json&) { return Resign{}; });
}
template <>
std::optional<Fail> parse(const std::string& text) {
  return read(text, "fail", [](const json& body) {
    return Fail{.why = body.at("why"), .exit_code = whole<int>(body, "exit_code")};
  });
}
template <>
std::optional<Control> parse(const std::string& text) {
  return read(text, "control", [](const json& body) {
    Control control;
    if (body.contains("workers")) control.workers = whole<int>(body, "workers");
    return control;
  });
}
template <>
std::optional<Go> parse(const std::string& text) {
  return read(text, "go", [](const json& body) {
    return Go{.generation = whole(body, "generation"),
              .rank = whole<int>(body, "rank"),
              .world = whole<int>(body, "world"),
              .port = whole<uint16_t>(body, "port"),
              .last = body.at("last"),
              .why = body.at("why")};
  });
}
template <>
std::optional<Leave> parse(const std::string& text) {
  return read(text, "leave", [](const json& body) {
    return Leave{.generation = whole(body, "generation"),
                 .at_once = body.at("at_once"),
                 .why = body.at("why")};
  });
}
template <>
std::optional<Dismiss> parse(const std::string& text) {
  return read(text, "dismiss", [](const json& body) {
    return Dismiss{.refused = body.at("refused"), .why = body.at("why")};
  });
}
template <>
std::optional<Status> parse(const std::string& text) {
  return read(text, "status", [](const json& body) {
    return Status{.text = body.at("text"), .refused = body.at("refused")};
  });
}

}  // namespace lockstep::elastic
