#include "matpow/chain.h"

#include <gtest/gtest.h>

#include "expect_error.h"

namespace lockstep::matpow {
namespace {

TEST(Chain, OfTenBySquaringHasFourProducts) {
  using By = Product::By;
  EXPECT_EQ(
      chain_of(10, Method::squaring),
      (std::vector<Product>{{By::itself, 1}, {By::itself, 2}, {By::base, 4}, {By::itself, 5}}));
}

TEST(Chain, OfTenNaivelyHasNineProducts) {
  const auto chain = chain_of(10, Method::naive);
  EXPECT_EQ(chain.size(), 9U);
  for (const Product& product : chain) EXPECT_EQ(product.by, Product::By::base);
}

TEST(Chain, OfOneIsEmpty) {
  EXPECT_TRUE(chain_of(1, Method::squaring).empty());
  EXPECT_TRUE(chain_of(1, Method::naive).empty());
}

TEST(Chain, LeadsToEveryPowerByProductsOfPowersThatAreThere) {
  for (int64_t power = 1; power <= 1000; ++power)
    for (const Method method : {Method::squaring, Method::naive}) {
      int64_t reached = 1;
      for (const Product& product : chain_of(power, method)) {
        EXPECT_EQ(product.before, reached);
        reached = product.after();
      }
      EXPECT_EQ(reached, power);
    }
}

TEST(Chain, BySquaringNeedsTwiceTheBinaryDigitsAtMost) {
  EXPECT_EQ(chain_of(512, Method::squaring).size(), 9U);
  EXPECT_EQ(chain_of(511, Method::squaring).size(), 16U);
}

TEST(Chain, OfPowersBelowOneIsRefused) {
  for (const int64_t power : {0, -3, 1001})
    expect_bad_input([&] { chain_of(power, Method::squaring); },
                     {"--power " + std::to_string(power), "1 to 1000"});
}

}  // namespace
}  // namespace lockstep::matpow
