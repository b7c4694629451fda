#include "data/download.h"

#include <curl/curl.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <exception>
#include <memory>

#include "base/digest.h"
#include "base/units.h"
#include "lockstep/error.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

constexpr long kConnectSeconds = 20;
constexpr long kSlowBytesASecond = 1024;
constexpr long kSlowSeconds = 30;

// One request that appends to the partial file.
class Transfer {
 public:
  Transfer(const Download& wanted, const fs::path& part) : wanted_(wanted), part_(part) {
    static const CURLcode started = curl_global_init(CURL_GLOBAL_DEFAULT);
    curl_.reset(started == CURLE_OK ? curl_easy_init() : nullptr);
    if (!curl_) throw BadInput("libcurl cannot start");
    file_ = open(part.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (file_ < 0) throw BadInput("{}: cannot create: {}", part.string(), std::strerror(errno));
    start_ = lseek(file_, 0, SEEK_END);
  }
  ~Transfer() { close(file_); }
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  int64_t start() const { return start_; }

  CURLcode run() {
    set(CURLOPT_URL, wanted_.url.c_str());
    set(CURLOPT_PROTOCOLS_STR, "http,https");
    set(CURLOPT_FOLLOWLOCATION, 1L);
    set(CURLOPT_FAILONERROR, 1L);  // otherwise an error page would be appended to the file
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
    set(CURLOPT_LOW_SPEED_LIMIT, kSlowBytesASecond);
    set(CURLOPT_LOW_SPEED_TIME, kSlowSeconds);
    set(CURLOPT_RESUME_FROM_LARGE, static_cast<curl_off_t>(start_));
    set(CURLOPT_ERRORBUFFER, error_);
    set(CURLOPT_WRITEFUNCTION, &Transfer::on_data);
    set(CURLOPT_WRITEDATA, this);
    set(CURLOPT_NOPROGRESS, 0L);
    set(CURLOPT_XFERINFOFUNCTION, &Transfer::on_progress);
    set(CURLOPT_XFERINFODATA, this);
    const CURLcode result = curl_easy_perform(curl_.get());
    if (thrown_) std::rethrow_exception(thrown_);
    return nothing_is_left() ? CURLE_OK : result;
  }

  [[noreturn]] void fail(CURLcode code) const {
    if (write_error_ != 0)
      throw BadInput(
          "{}: cannot write: {}; free some space or set LOCKSTEP_DATA to another folder, "
          "then run the command again to continue",
          part_.string(), std::strerror(write_error_));
    throw BadInput(
        "{}: {}; {} are kept in {}: run the command again to continue, or give the files with "
        "--from",
        wanted_.url, error_[0] != '\0' ? error_ : curl_easy_strerror(code),
        format_bytes(static_cast<int64_t>(fs::file_size(part_))), part_.string());
  }

 private:
  // The server's answer to a request beyond the end: the partial file is complete.
  bool nothing_is_left() const {
    constexpr long kRangeNotSatisfiable = 416;
    long status = 0;
    curl_easy_getinfo(curl_.get(), CURLINFO_RESPONSE_CODE, &status);
    return start_ > 0 && status == kRangeNotSatisfiable;
  }

  template <typename Value>
  void set(CURLoption option, Value value) {
    curl_easy_setopt(curl_.get(), option, value);
  }

  static size_t on_data(const char* data, size_t, size_t count, void* self) {
    auto* transfer = static_cast<Transfer*>(self);
    for (size_t done = 0; done < count;) {
      const ssize_t written = write(transfer->file_, data + done, count - done);
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) {
        transfer->write_error_ = errno;
        return 0;
      }
      done += static_cast<size_t>(written);
    }
    return count;
  }

  // Exceptions must not pass through libcurl: they are stored, and the transfer is aborted.
  static int on_progress(void* self, curl_off_t total, curl_off_t done, curl_off_t, curl_off_t) {
    auto* transfer = static_cast<Transfer*>(self);
    try {
      if (transfer->wanted_.progress && total > 0)
        transfer->wanted_.progress(transfer->start_ + done, transfer->start_ + total);
      return 0;
    } catch (...) {
      transfer->thrown_ = std::current_exception();
      return 1;
    }
  }

  struct Cleanup {
    void operator()(CURL* curl) const { curl_easy_cleanup(curl); }
  };

  const Download& wanted_;
  const fs::path& part_;
  std::unique_ptr<CURL, Cleanup> curl_;
  int file_ = -1;
  int64_t start_ = 0;
  int write_error_ = 0;
  std::exception_ptr thrown_;
  char error_[CURL_ERROR_SIZE] = "";
};

enum class Began { at_start, in_the_middle };

// Completes `part`; starts again if the server does not support continuing.
Began complete(const Download& wanted, const fs::path& part) {
  Began began = Began::at_start;
  CURLcode code = CURLE_OK;
  {
    Transfer transfer(wanted, part);
    if (transfer.start() > 0) began = Began::in_the_middle;
    code = transfer.run();
    if (code == CURLE_OK) return began;
    if (code != CURLE_RANGE_ERROR) transfer.fail(code);
  }
  fs::resize_file(part, 0);
  Transfer again(wanted, part);
  if (code = again.run(); code != CURLE_OK) again.fail(code);
  return Began::at_start;
}

bool is_right(const fs::path& file, const std::string& sha512) {
  return fs::is_regular_file(file) && digest_file(Digest::Kind::sha512, file) == sha512;
}

}  // namespace

void download(const Download& wanted) {
  if (is_right(wanted.to, wanted.sha512)) return;
  const fs::path part = wanted.to.string() + ".part";
  while (true) {
    const Began began = complete(wanted, part);
    if (is_right(part, wanted.sha512)) break;
    const std::string got = digest_file(Digest::Kind::sha512, part);
    fs::remove(part);
    // The old part may have been of another file, so download once more from the start.
    if (began == Began::at_start)
      throw BadInput(
          "{}: the download has sha512 {}..., expected {}...: it was changed or truncated on the "
          "way; run the command again, or give the files with --from",
          wanted.url, got.substr(0, 16), wanted.sha512.substr(0, 16));
  }
  fs::rename(part, wanted.to);
}

}  // namespace lockstep::data
