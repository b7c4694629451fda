#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep {

/// "8GiB", "25 MiB", "64M" (binary, as nccl-tests has it), "1500" -> bytes. Throws BadInput.
int64_t parse_bytes(std::string_view text);

/// 1536 -> "1.5 KiB".
std::string format_bytes(int64_t bytes);

/// 4000 -> "1:06:40", 75 -> "1:15", 3.25 -> "3.2 s".
std::string format_duration(double seconds);

/// 12345 -> "12,345".
std::string format_count(int64_t count);

/// With four digits: 2.3026, 0.0123 -> "0.0123", 0.00012345 -> "0.0001234".
std::string format_loss(double loss);

/// "1 worker", "2 workers".
std::string plural(int64_t count, const std::string& noun);

}  // namespace lockstep
