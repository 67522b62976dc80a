#include "transport/base/parse.hpp"

#include <gtest/gtest.h>

#include <array>

namespace ucxring {
namespace {

TEST(Parse, IntegersAreWhole) {
  EXPECT_EQ(parse_integer("0"), 0u);
  EXPECT_EQ(parse_integer("18446744073709551615"), ~std::uint64_t{0});
  for (const char* text : {"", "18446744073709551616", "-1", "+1", " 1", "1 ", "0x10", "1.0"}) {
    EXPECT_EQ(parse_integer(text), std::nullopt) << text;
  }
}

TEST(Parse, BytesTakeBinaryAndDecimalSuffixes) {
  EXPECT_EQ(parse_bytes("7"), 7u);
  EXPECT_EQ(parse_bytes("2Ki"), 2048u);
  EXPECT_EQ(parse_bytes("3Mi"), std::size_t{3} << 20);
  EXPECT_EQ(parse_bytes("4Gi"), std::size_t{4} << 30);
  EXPECT_EQ(parse_bytes("5K"), 5000u);
  EXPECT_EQ(parse_bytes("6M"), 6'000'000u);
  EXPECT_EQ(parse_bytes("7G"), 7'000'000'000u);
  for (const char* text : {"Ki", "1KiB", "1k", "i", "1KiKi", "18446744073709551615Ki"}) {
    EXPECT_EQ(parse_bytes(text), std::nullopt) << text;
  }
}

TEST(Parse, ShownBytesParseBack) {
  EXPECT_EQ(show_bytes(0), "0");
  EXPECT_EQ(show_bytes(1023), "1023");
  EXPECT_EQ(show_bytes(std::size_t{64} << 20), "64Mi");
  EXPECT_EQ(show_bytes(std::size_t{1536} << 10), "1536Ki");
  EXPECT_EQ(parse_bytes(show_bytes(std::size_t{3} << 30)), std::size_t{3} << 30);
}

TEST(Parse, Booleans) {
  for (const char* text : {"1", "true", "YES", "On"}) EXPECT_EQ(parse_bool(text), true) << text;
  for (const char* text : {"0", "False", "no", "OFF"}) EXPECT_EQ(parse_bool(text), false) << text;
  for (const char* text : {"", "2", "y", "enable"}) EXPECT_EQ(parse_bool(text), std::nullopt) << text;
}

TEST(Parse, EditDistanceAndNearestName) {
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("abc", ""), 3u);
  EXPECT_EQ(edit_distance("LANES", "LANES"), 0u);
  constexpr std::array<std::string_view, 3> known{"SLICE_BYTES", "LANES", "SPIN_US"};
  EXPECT_EQ(nearest_name("SLICEBYTES", known), "SLICE_BYTES");
  EXPECT_EQ(nearest_name("LINES", known), "LANES");
  EXPECT_EQ(nearest_name("LINES", {}), "");
}

}  // namespace
}  // namespace ucxring
