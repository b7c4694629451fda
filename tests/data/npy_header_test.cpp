#include "data/npy_header.h"

#include "data/npy.h"
#include "data/written_files.h"
#include "expect_error.h"
#include "temporary_folder.h"

namespace lockstep::data {
namespace {

TEST(NpyHeader, ReadsVersionsOneToThree) {
  const TemporaryFolder folder;
  for (const int version : {1, 2, 3}) {
    const auto path = folder.write("x.npy", npy("<f4", {2}, raw<float>({1, 2}), version));
    const NpyArray array(path);
    EXPECT_EQ(array.samples(), 2);
    float second = 0;
    array.write(1, std::span(&second, 1));
    EXPECT_EQ(second, 2);
  }
  const auto path = folder.write("x.npy", npy("<f4", {2}, raw<float>({1, 2}), 4));
  expect_bad_input([&] { const NpyArray array(path); }, {path.string(), "version 4"});
}

TEST(NpyHeader, ReadsAHeaderOfPythonTwo) {
  const TemporaryFolder folder;
  const auto path = folder.write(
      "x.npy", npy_raw("{\"descr\": \"<f4\", \"fortran_order\": False, \"shape\": (2L, 1L)}",
                       raw<float>({1, 2})));
  const NpyArray array(path);
  EXPECT_EQ(array.samples(), 2);
  EXPECT_EQ(array.shape(), (Shape{1}));
}

TEST(NpyHeader, RefusesStructuredArrays) {
  const TemporaryFolder folder;
  const auto path = folder.write(
      "x.npy",
      npy_raw("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", "1234"));
  expect_bad_input([&] { const NpyArray array(path); }, {path.string(), "structured"});
}

TEST(NpyHeader, RefusesBigEndianWithTheCure) {
  const TemporaryFolder folder;
  const auto path = folder.write("x.npy", npy(">f4", {1}, "1234"));
  expect_bad_input([&] { const NpyArray array(path); },
                   {path.string(), "big-endian", "astype('<f4')"});
}

TEST(NpyHeader, RefusesFortranOrderWithTheCure) {
  const TemporaryFolder folder;
  const auto path = folder.write(
      "x.npy", npy_raw("{'descr': '<f4', 'fortran_order': True, 'shape': (1, 1), }", "1234"));
  expect_bad_input([&] { const NpyArray array(path); },
                   {path.string(), "Fortran order", "np.ascontiguousarray(x)"});
}

TEST(NpyHeader, RefusesMalformedHeaders) {
  const TemporaryFolder folder;
  for (const std::string dictionary :
       {"", "{", "{}", "nonsense", "{'descr': '<f4'}", "{'descr': '<f4", "{'descr': 4}",
        "{'descr': '<f4', 'fortran_order': Maybe, 'shape': (1,), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1, x), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': 1, }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1",
        "{'descr': '<f4' 'fortran_order': False, 'shape': (1,), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'more': 1}"}) {
    const auto path = folder.write("x.npy", npy_raw(dictionary, "1234"));
    expect_bad_input([&] { const NpyArray array(path); }, {path.string(), "malformed", "np.save"});
  }
}

TEST(NpyHeader, RefusesAFileThatIsNotNpy) {
  const TemporaryFolder folder;
  const auto path = folder.write("x.npy", "PK\x03\x04 an .npz, say");
  expect_bad_input([&] { const NpyArray array(path); }, {path.string(), "not an .npy file"});
  folder.write("x.npy", "\x93NUM");
  expect_bad_input([&] { const NpyArray array(path); }, {path.string(), "truncated"});
}

TEST(NpyHeader, RefusesAFileOfTheWrongLength) {
  const TemporaryFolder folder;
  const auto path = folder.write("x.npy", npy("<f4", {2}, "1234567"));
  expect_bad_input([&] { const NpyArray array(path); }, {path.string(), "truncated", "8", "7"});
  folder.write("x.npy", npy("<f4", {2}, "123456789"));
  expect_bad_input([&] { const NpyArray array(path); }, {path.string(), "trailing bytes"});
}

TEST(NpyHeader, ChecksAHostileShapeBeforeAskingForMemory) {
  const TemporaryFolder folder;
  const auto path = folder.write("x.npy", npy("<f4", {1000000, 1000000}, "1234"));
  expect_bad_input([&] { const NpyArray array(path); }, {path.string(), "truncated"});
  folder.write("x.npy", npy("<f4", {int64_t{1} << 62, 4}, "1234"));
  expect_bad_input([&] { const NpyArray array(path); }, {path.string(), "does not fit"});
  std::string file = npy_raw("{}", "", 2);
  file[11] = '\x7f';
  folder.write("x.npy", file);
  expect_bad_input([&] { const NpyArray array(path); }, {path.string(), "malformed"});
}

TEST(NpyHeader, RefusesAnArrayWithoutSamples) {
  const TemporaryFolder folder;
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{0, 3}, {3, 0}}) {
    const auto path = folder.write("x.npy", npy("<f4", shape, ""));
    expect_bad_input([&] { const NpyArray array(path); }, {path.string(), "no samples"});
  }
  const auto path = folder.write("x.npy", npy("<f4", {}, "1234"));
  expect_bad_input([&] { const NpyArray array(path); }, {path.string(), "no samples"});
}

}  // namespace
}  // namespace lockstep::data
