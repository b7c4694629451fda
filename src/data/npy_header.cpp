// The .npy format: "\x93NUMPY", a major and a minor version, the header's length (two bytes in
// version 1, four from version 2), then the header: a Python dictionary in ASCII (UTF-8 from
// version 3) with `descr`, `fortran_order` and `shape`; then the elements.
#include "data/npy_header.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>

#include "data/dataset.h"
#include "lockstep/error.h"

namespace lockstep::data {
namespace {

// A header names one type and a few numbers; numpy itself refuses more than 10,000 characters.
constexpr uint32_t kLongestHeader = 65'536;

struct Dictionary {
  std::optional<std::string> type;
  std::optional<bool> fortran_order;
  std::optional<std::vector<int64_t>> shape;
};

// Reads the one form of dictionary that numpy writes.
class DictionaryReader {
 public:
  DictionaryReader(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  Dictionary read() {
    Dictionary result;
    expect('{');
    while (!accept('}')) {
      const std::string key = read_string();
      expect(':');
      if (key == "descr")
        result.type = read_type();
      else if (key == "fortran_order")
        result.fortran_order = read_bool();
      else if (key == "shape")
        result.shape = read_shape();
      else
        fail();
      if (!accept(',') && peek() != '}') fail();
    }
    if (!result.type || !result.fortran_order || !result.shape) fail();
    return result;
  }

 private:
  [[noreturn]] void fail() const {
    throw BadInput("{}: malformed .npy header '{}'; save the array again with np.save", file_,
                   text_.substr(0, 200));
  }

  char peek() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }

  bool accept(char wanted) {
    if (peek() != wanted) return false;
    ++at_;
    return true;
  }

  void expect(char wanted) {
    if (!accept(wanted)) fail();
  }

  std::string read_string() {
    const char quote = peek();
    if (quote != '\'' && quote != '"') fail();
    const size_t end = text_.find(quote, ++at_);
    if (end == std::string_view::npos) fail();
    std::string result(text_.substr(at_, end - at_));
    at_ = end + 1;
    return result;
  }

  std::string read_type() {
    if (peek() == '[')
      throw BadInput(
          "{}: a structured array; expected plain numbers: save one field of it, as "
          "x['name'].astype('float32')",
          file_);
    return read_string();
  }

  bool read_bool() {
    peek();
    for (const std::string_view word : {"True", "False"})
      if (text_.substr(at_).starts_with(word)) {
        at_ += word.size();
        return word == "True";
      }
    fail();
  }

  std::vector<int64_t> read_shape() {
    std::vector<int64_t> shape;
    expect('(');
    while (!accept(')')) {
      peek();
      int64_t dimension = 0;
      const char* end = text_.data() + text_.size();
      const auto [stop, failure] = std::from_chars(text_.data() + at_, end, dimension);
      if (failure != std::errc() || dimension < 0) fail();
      at_ = static_cast<size_t>(stop - text_.data());
      accept('L');  // as Python 2 wrote long numbers
      shape.push_back(dimension);
      if (!accept(',') && peek() != ')') fail();
    }
    return shape;
  }

  std::string_view text_;
  const std::string& file_;
  size_t at_ = 0;
};

std::string read_dictionary(InputFile& file) {
  const std::string name = file.path().string();
  std::array<uint8_t, 8> start{};
  file.read(std::as_writable_bytes(std::span(start)));
  if (std::memcmp(start.data(), "\x93NUMPY", 6) != 0)
    throw BadInput("{}: not an .npy file; save the array with np.save", name);
  const int version = start[6];
  if (version < 1 || version > 3)
    throw BadInput("{}: .npy version {}: expected 1, 2 or 3; save the array again with np.save",
                   name, version);
  std::array<uint8_t, 4> length{};
  file.read(std::as_writable_bytes(std::span(length)).first(version == 1 ? 2 : 4));
  const uint32_t characters =
      length[0] | uint32_t{length[1]} << 8 | uint32_t{length[2]} << 16 | uint32_t{length[3]} << 24;
  if (characters > kLongestHeader)
    throw BadInput(
        "{}: malformed .npy header: {} characters long; save the array again with "
        "np.save",
        name, characters);
  std::string text(characters, '\0');
  file.read(std::as_writable_bytes(std::span(text)));
  return text;
}

int64_t item_bytes(const std::string& type, const std::string& file) {
  int64_t bytes = 0;
  const std::string digits = type.substr(std::min<size_t>(1, type.size()));
  const char* end = digits.data() + digits.size();
  const auto [stop, failure] = std::from_chars(digits.data(), end, bytes);
  const bool is_text = type.starts_with('U') || type.starts_with('S');
  if (is_text)
    throw BadInput(
        "{}: dtype '{}' is text: expected numbers; number classes with "
        "np.unique(y, return_inverse=True)[1]",
        file, type);
  if (failure != std::errc() || stop != end || bytes < 1 || bytes > 16)
    throw BadInput(
        "{}: dtype '{}': expected numbers; save x.astype('float32') or "
        "x.astype('uint8')",
        file, type);
  return bytes;
}

}  // namespace

NpyHeader read_npy_header(InputFile& file) {
  const std::string name = file.path().string();
  const std::string text = read_dictionary(file);
  Dictionary dictionary = DictionaryReader(text, name).read();
  std::string type = *dictionary.type;
  char order = '=';
  if (!type.empty() && std::string_view("<>|=").find(type[0]) != std::string_view::npos) {
    order = type[0];
    type.erase(0, 1);
  }
  const int64_t bytes = item_bytes(type, name);
  if (order == '>' && bytes > 1)
    throw BadInput("{}: dtype '>{}' is big-endian; save x.astype('<{}')", name, type, type);
  if (*dictionary.fortran_order && dictionary.shape->size() > 1)
    throw BadInput("{}: stored in Fortran order; save np.ascontiguousarray(x)", name);
  const auto count = checked_elements(*dictionary.shape);
  int64_t promised = 0;
  if (!count || __builtin_mul_overflow(*count, bytes, &promised))
    throw BadInput(
        "{}: malformed .npy header: shape {} does not fit in memory; save the array "
        "again with np.save",
        name, to_string(*dictionary.shape));
  return {type, std::move(*dictionary.shape), *count, promised};
}

}  // namespace lockstep::data
