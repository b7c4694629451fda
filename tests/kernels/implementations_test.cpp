// oneDNN has a reference kernel for every convolution, which is up to a hundred times slower than
// LibTorch. None may serve a layer, on any processor.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "kernels/convolution.h"
#include "kernels/cpu.h"

namespace lockstep::kernels {
namespace {

std::string name_of(const ConvShape& s) {
  return std::to_string(s.samples) + " of " + std::to_string(s.in_height) + " x " +
         std::to_string(s.in_width) + ", " + std::to_string(s.in_channels) + " -> " +
         std::to_string(s.out_channels) + " channels, kernel " + std::to_string(s.kernel) +
         ", stride " + std::to_string(s.stride) + ", padding " + std::to_string(s.padding);
}

void expect_no_reference(const ConvShape& shape) {
  const ImageLayout layout = shape.in_channels % 8 == 0 ? ImageLayout::blocked : ImageLayout::plain;
  if (!serves(shape, layout)) return;
  const Implementations of = Convolution(shape, layout).implementations();
  for (const std::string& implementation : {of.forward, of.input_gradient, of.weight_gradient})
    EXPECT_FALSE(is_reference(implementation)) << implementation << " serves " << name_of(shape);
}

struct Channels {
  int64_t in, out;
};

TEST(Implementations, AreNoReferenceKernelsForImagesOfAnySize) {
  ASSERT_TRUE(supported()) << "tests need a processor with AVX2 and FMA";
  for (const Channels channels : {Channels{8, 8}, {24, 40}, {512, 512}, {1, 32}, {3, 16}, {12, 16}})
    for (const int64_t kernel : {1, 3, 5, 7})
      for (const int64_t stride : {1, 2, 4})
        for (const int64_t side : {1, 2, 3, 4, 6, 8, 13})
          expect_no_reference(
              {2, channels.in, side, side, channels.out, kernel, stride, kernel / 2});
}

TEST(Implementations, AreNoReferenceKernelsForAnyPadding) {
  ASSERT_TRUE(supported()) << "tests need a processor with AVX2 and FMA";
  for (const Channels channels : {Channels{16, 32}, {3, 16}})
    for (const int64_t kernel : {1, 2, 3, 5, 9})
      for (const int64_t stride : {1, 2, 3})
        for (int64_t padding = 0; padding <= kernel; ++padding)
          for (const int64_t width : {4, 9, 12})
            expect_no_reference({1, channels.in, 9, width, channels.out, kernel, stride, padding});
}

// oneDNN reads the variable when it is first used, so another process must set it.
TEST(Implementations, AreNoReferenceKernelsOnAProcessorWithoutAvx512) {
  const std::string program = std::filesystem::read_symlink("/proc/self/exe");
  EXPECT_EQ(std::system(("ONEDNN_MAX_CPU_ISA=AVX2 '" + program +
                         "' --gtest_filter='Implementations.*:-*WithoutAvx512' > /dev/null")
                            .c_str()),
            0);
}

// They were the slow ones: a residual net's last layers for images of 8 x 8.
TEST(Implementations, OfFiltersLargerThanTheImageAreOurs) {
  for (const int64_t side : {1, 2}) {
    EXPECT_EQ(method_for({32, 64, side, side, 64, 3, 1, 1}, ImageLayout::blocked), Method::packed);
    EXPECT_EQ(method_for({32, 512, side, side, 512, 3, 2, 1}, ImageLayout::blocked),
              Method::packed);
  }
}

}  // namespace
}  // namespace lockstep::kernels
