// What a user sees of the tuner in a running group: deterministic sums and the explanation of choices.
#include <gtest/gtest.h>

#include <cstring>

#include "tests/support/ranks.hpp"

namespace ucxring::testing {
namespace {

constexpr int kRanks = 5;

/// Values whose sum depends on the order of addition.
float awkward(int rank, std::size_t element) {
  const auto mixed =
      static_cast<unsigned>(rank + 1) * 2654435761U + static_cast<unsigned>(element % 7) * 40503U;
  return static_cast<float>(mixed % 100'000U) * (rank % 2 == 0 ? 1e-3F : -1e4F);
}

/// The sum over all ranks of `count` elements, the first of which is element `first`.
std::vector<float> summed(SimulatedGroup& group, std::size_t first, std::size_t count) {
  std::vector<std::vector<float>> vectors(kRanks, std::vector<float>(count));
  for (int rank = 0; rank < kRanks; ++rank) {
    for (std::size_t i = 0; i < count; ++i)
      vectors[static_cast<std::size_t>(rank)][i] = awkward(rank, first + i);
  }
  const auto outcomes = group.run([&](Communicator& communicator) {
    auto& vector = vectors[static_cast<std::size_t>(communicator.rank().value)];
    const Buffer buffer{reinterpret_cast<std::byte*>(vector.data()), count * sizeof(float)};
    return communicator.all_reduce(buffer, buffer, DataType::float32, ReduceOp::sum);
  });
  for (const Status& outcome : outcomes) outcome.throw_if_error();
  return vectors[0];
}

/// How many of the elements of a long vector differ from what they are in short ones.
int elements_that_depend_on_size(const Communicator::Options& options) {
  SimulatedGroup group(kRanks, options);
  const auto whole = summed(group, 0, 100'000);
  int different = 0;
  for (const std::size_t count : {std::size_t{1}, std::size_t{7}, std::size_t{1000}, std::size_t{33'000}}) {
    const std::size_t first = whole.size() - count;
    const auto part = summed(group, first, count);
    for (std::size_t i = 0; i < count; ++i) {
      different += std::memcmp(&part[i], &whole[first + i], sizeof(float)) != 0 ? 1 : 0;
    }
  }
  return different;
}

TEST(Deterministic, SumsDoNotDependOnTheSizeOfTheVector) {
  auto options = test_options();
  options.config.deterministic = true;
  EXPECT_EQ(elements_that_depend_on_size(options), 0);
}

TEST(Deterministic, OtherwiseTheyMay) {
  auto options = test_options();
  options.config.algorithm = "all_reduce:ring";
  EXPECT_GT(elements_that_depend_on_size(options), 0);
}

/// What two ranks print while they sum one vector twice.
std::string printed(const std::string& debug) {
  auto options = test_options();
  options.config.debug = debug;
  ::testing::internal::CaptureStderr();
  run_on_threads(2, options, [](Communicator& communicator) {
    std::vector<float> vector(1000, 1.0F);
    communicator.all_reduce(std::span(vector));
    communicator.all_reduce(std::span(vector));
  });
  return ::testing::internal::GetCapturedStderr();
}

std::size_t occurrences(const std::string& text, std::string_view word) {
  std::size_t count = 0;
  for (auto at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++count;
  return count;
}

TEST(Debug, OneRankExplainsItsChoices) {
  const std::string text = printed("TUNING");
  EXPECT_EQ(occurrences(text, "TUNING: 2 ranks on 2 hosts"), 1u) << text;
  EXPECT_EQ(occurrences(text, "TUNING: far: latency"), 1u) << text;
  EXPECT_EQ(occurrences(text, "TUNING: broadcast: to "), 1u) << text;
  EXPECT_EQ(occurrences(text, "TUNING: all_reduce, 4000 bytes: "), 1u) << text;
}

TEST(Debug, IsSilentByDefault) { EXPECT_EQ(printed(""), ""); }

}  // namespace
}  // namespace ucxring::testing
