#include "run/safetensors.h"

#include <gtest/gtest.h>

#include <array>

#include "base/atomic_file.h"
#include "expect_error.h"
#include "lockstep/error.h"
#include "temporary_folder.h"

namespace lockstep::run {
namespace {

const std::array<float, 6> kValues = {1, 2, 3, 4, 5, 6};
const std::array<int64_t, 1> kCount = {7};

std::vector<TensorView> two_tensors() {
  return {{"fc.weight", "F32", {2, 3}, std::as_bytes(std::span(kValues))},
          {"bn.num_batches_tracked", "I64", {}, std::as_bytes(std::span(kCount))}};
}

std::string refusal_of(const std::string& bytes) {
  TemporaryFolder folder;
  write_file_atomically(folder / "f", bytes);
  return message_of<BadInput>([&] { read_safetensors(folder / "f"); });
}

std::string file_with_header(const std::string& header, const std::string& data) {
  const uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), 8) + header + data;
}

TEST(Safetensors, ReadsBackWhatWasWritten) {
  TemporaryFolder folder;
  write_safetensors(folder / "f", two_tensors(), {{"format", "pt"}});
  const Safetensors file = read_safetensors(folder / "f");
  ASSERT_EQ(file.tensors.size(), 2);
  EXPECT_EQ(file.metadata.at("format"), "pt");
  const TensorView* weight = file.find("fc.weight");
  ASSERT_NE(weight, nullptr);
  EXPECT_EQ(weight->shape, (std::vector<int64_t>{2, 3}));
  EXPECT_TRUE(std::ranges::equal(weight->bytes, std::as_bytes(std::span(kValues))));
  EXPECT_EQ(file.find("fc.bias"), nullptr);
}

TEST(Safetensors, RefusesAFileCutOffAnywhere) {
  TemporaryFolder folder;
  write_safetensors(folder / "f", two_tensors(), {});
  const std::string whole = read_file(folder / "f");
  for (size_t length = 0; length < whole.size(); ++length)
    EXPECT_FALSE(refusal_of(whole.substr(0, length)).empty()) << length;
}

TEST(Safetensors, RefusesAFlippedBitInTheData) {
  TemporaryFolder folder;
  write_safetensors(folder / "f", two_tensors(), {});
  std::string bytes = read_file(folder / "f");
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  EXPECT_NE(refusal_of(bytes).find("digest"), std::string::npos);
}

TEST(Safetensors, RefusesChangedMetadata) {
  TemporaryFolder folder;
  write_safetensors(folder / "f", two_tensors(), {{"step", "1234"}});
  std::string bytes = read_file(folder / "f");
  bytes[bytes.find("1234")] = '9';
  EXPECT_NE(refusal_of(bytes).find("digest"), std::string::npos);
}

TEST(Safetensors, RefusesHeadersThatPromiseWhatIsNotThere) {
  const auto header = [](const std::string& type, const std::string& shape,
                         const std::string& offsets) {
    return file_with_header(R"({"t":{"dtype":")" + type + R"(","shape":)" + shape +
                                R"(,"data_offsets":)" + offsets + "}}",
                            "12345678");
  };
  EXPECT_NE(refusal_of(header("F32", "[3]", "[0,12]")).find("ends at byte 12"), std::string::npos);
  EXPECT_NE(refusal_of(header("F32", "[1]", "[0,8]")).find("its shape needs 4"), std::string::npos);
  EXPECT_NE(refusal_of(header("Q8", "[8]", "[0,8]")).find("unknown type"), std::string::npos);
  EXPECT_NE(refusal_of(header("F32", "[4611686018427387904,4]", "[0,8]")).find("impossible"),
            std::string::npos);
  EXPECT_NE(refusal_of(header("F32", "[-2]", "[0,8]")).find("impossible"), std::string::npos);
  EXPECT_FALSE(refusal_of(header("F32", "[2]", "[8,0]")).empty());
  EXPECT_FALSE(refusal_of(header("F32", "\"x\"", "[0]")).empty());
  EXPECT_FALSE(refusal_of(file_with_header("[1,2]", "")).empty());
  EXPECT_FALSE(refusal_of("hello, world: not safetensors at all").empty());
}

}  // namespace
}  // namespace lockstep::run
