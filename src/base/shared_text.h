#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <climits>
#include <string>
#include <string_view>

#include "lockstep/error.h"

namespace lockstep {

/// A text in memory that forked workers share with their launcher, at most as long as a path.
class SharedText {
 public:
  SharedText()
      : memory_(static_cast<char*>(
            mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {
    if (memory_ == MAP_FAILED) throw Error("out of memory; see ulimit -v");
  }
  ~SharedText() { munmap(memory_, kBytes); }
  SharedText(const SharedText&) = delete;
  SharedText& operator=(const SharedText&) = delete;

  void set(std::string_view text) {
    *std::copy_n(text.begin(), std::min<size_t>(text.size(), kBytes - 1), memory_) = '\0';
  }
  std::string get() const { return memory_; }

 private:
  static constexpr size_t kBytes = PATH_MAX;

  char* const memory_;
};

}  // namespace lockstep
