#include "collectives/collective.hpp"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace ucxring {
namespace {

void expect_equal(const Fingerprint& one, const Fingerprint& other) {
  EXPECT_EQ(one.collective, other.collective);
  EXPECT_EQ(one.type, other.type);
  EXPECT_EQ(one.op, other.op);
  EXPECT_EQ(one.root, other.root);
  EXPECT_EQ(one.count, other.count);
  EXPECT_EQ(one.uneven, other.uneven);
}

TEST(Fingerprint, SurvivesPacking) {
  for (int collective = 0; collective < kCollectives; ++collective) {
    for (int type = 0; type < kDataTypes; ++type) {
      for (int op = 0; op < kReduceOps; ++op) {
        const Fingerprint print{static_cast<Collective>(collective), static_cast<DataType>(type),
                                static_cast<ReduceOp>(op),           1 + collective * type,
                                std::uint64_t{1} << (type + op),     op % 2 == 1};
        expect_equal(Fingerprint::unpack(print.pack()), print);
      }
    }
  }
}

TEST(Fingerprint, HoldsTheLargestFields) {
  const Fingerprint print{Collective::broadcast,        DataType::complex128,
                          ReduceOp::premul_sum,         4095,
                          (std::uint64_t{1} << 38) - 1, true};
  expect_equal(Fingerprint::unpack(print.pack()), print);
}

TEST(Fingerprint, LargerFieldsDisturbNoOthers) {
  Fingerprint print{Collective::all_gather, DataType::int8, ReduceOp::max, 4096 + 5,
                    (std::uint64_t{1} << 38) + 7};
  const Fingerprint unpacked = Fingerprint::unpack(print.pack());
  print.root = 5;
  print.count = 7;
  expect_equal(unpacked, print);
}

TEST(Fingerprint, EachFieldChangesTheStamp) {
  const Fingerprint print{Collective::all_reduce, DataType::float32, ReduceOp::sum, 1, 1024};
  Fingerprint other = print;
  other.collective = Collective::all_gather;
  EXPECT_NE(other.pack(), print.pack());
  other = print, other.type = DataType::float64;
  EXPECT_NE(other.pack(), print.pack());
  other = print, other.op = ReduceOp::max;
  EXPECT_NE(other.pack(), print.pack());
  other = print, other.root = 2;
  EXPECT_NE(other.pack(), print.pack());
  other = print, other.count = 1025;
  EXPECT_NE(other.pack(), print.pack());
  other = print, other.uneven = true;
  EXPECT_NE(other.pack(), print.pack());
}

TEST(Fingerprint, DescribesTheCall) {
  EXPECT_EQ((Fingerprint{Collective::all_reduce, DataType::float32, ReduceOp::sum, 0, 1024}.describe()),
            "all_reduce(sum, float32, 1024 elements)");
  EXPECT_EQ((Fingerprint{Collective::broadcast, DataType::int64, ReduceOp::sum, 3, 1}.describe()),
            "broadcast(int64, 1 element, root 3)");
  EXPECT_EQ((Fingerprint{Collective::all_gather, DataType::uint8, ReduceOp::sum, 0, 7}.describe()),
            "all_gather(uint8, 7 elements)");
  EXPECT_EQ((Fingerprint{Collective::reduce, DataType::int8, ReduceOp::max, 2, 5}.describe()),
            "reduce(max, int8, 5 elements, root 2)");
  EXPECT_EQ((Fingerprint{Collective::gather, DataType::int8, ReduceOp::sum, 2, 0, true}.describe()),
            "gather(int8, own sizes, root 2)");
  const Fingerprint uneven{Collective::all_gather, DataType::int8, ReduceOp::sum, 0, 0xabc, true};
  EXPECT_EQ(uneven.describe(), "all_gather(int8, uneven sizes)");
  EXPECT_EQ(uneven.describe("[1, 2] elements"), "all_gather(int8, [1, 2] elements)");
  EXPECT_EQ(Fingerprint{}.describe(), "barrier()");
}

TEST(Fingerprint, DescribesStampsOfStrangers) {
  EXPECT_EQ(Fingerprint::unpack(~Stamp{0}).describe(), "unknown collective(unknown type 31, uneven sizes)");
  for (int bit = 0; bit < 64; ++bit) EXPECT_FALSE(Fingerprint::unpack(Stamp{1} << bit).describe().empty());
}

TEST(CountsStamp, TellsCountsApart) {
  using Counts = std::vector<std::size_t>;
  std::set<std::uint64_t> stamps;
  const std::vector<Counts> different{{},     {0},    {1},          {0, 0}, {0, 1}, {1, 0},
                                      {2, 0}, {1, 1}, {1ULL << 40}, {3, 4}, {4, 3}, {1ULL << 38}};
  for (const Counts& counts : different) {
    const std::uint64_t stamp = counts_stamp(counts);
    EXPECT_TRUE(stamps.insert(stamp).second);
    EXPECT_EQ(counts_stamp(Counts(counts)), stamp);
    EXPECT_NE(stamp, 0U);
    EXPECT_LT(stamp, std::uint64_t{1} << 38);
  }
}

TEST(Collective, NamesAreDistinct) {
  EXPECT_EQ(to_string(Collective::reduce_scatter), "reduce_scatter");
  for (int i = 0; i < kCollectives; ++i) {
    for (int j = 0; j < i; ++j) {
      EXPECT_NE(to_string(static_cast<Collective>(i)), to_string(static_cast<Collective>(j)));
    }
  }
  EXPECT_EQ(to_string(static_cast<Collective>(kCollectives)), "unknown collective");
}

}  // namespace
}  // namespace ucxring
