// Ranks that do not call the same, on the immediate path and off it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>

#include "tests/multiprocess/shm_member.hpp"

namespace ucxring::testing {
namespace {

using namespace std::chrono_literals;

struct Disagreement {
  const char* name;
  std::function<Operation(Communicator&, Numbers, Call)> odd;     ///< what rank 0 calls
  std::function<Operation(Communicator&, Numbers, Call)> common;  ///< what the others call
};

Operation sum_of(Communicator& group, Numbers data, std::size_t count, Call call) {
  return start_sum(group, data.first(count), call);
}

const std::vector<Disagreement>& disagreements() {
  const auto small = [](auto& group, auto data, auto call) { return sum_of(group, data, 4, call); };
  const auto other_small = [](auto& group, auto data, auto call) { return sum_of(group, data, 8, call); };
  const auto large = [](auto& group, auto data, auto call) { return sum_of(group, data, 3'000'000, call); };
  const auto other_large = [](auto& group, auto data, auto call) {
    return sum_of(group, data, 3'000'001, call);
  };
  const auto broadcast = [](auto& group, auto data, auto call) {
    return group.broadcast(bytes_of(data.first(4)), DataType::int32, Rank(0), options_of(call));
  };
  const auto barrier = [](auto& group, auto, auto call) { return group.barrier(options_of(call)); };
  static const std::vector<Disagreement> all{
      {"small sizes", other_small, small}, {"large sizes", other_large, large},
      {"small and large", small, large},   {"large and small", large, small},
      {"broadcast", broadcast, small},     {"not broadcast", small, broadcast},
      {"barrier", barrier, small},         {"not barrier", small, barrier},
  };
  return all;
}

/// An operation that has ended before the others were heard is told by the next one.
Status disagree(Communicator& group, const Disagreement& each, Call call) {
  std::vector<std::int32_t> data(3'000'001);
  const auto& operation = group.rank() == Rank(0) ? each.odd : each.common;
  Status failure = failure_of([&] { return operation(group, data, call); });
  return failure.ok() ? failure_of([&] { return group.barrier(options_of(call)); }) : failure;
}

void disagree_about_all(const ProcessRank& process, Call odd, Call common) {
  int number = 0;
  for (const Disagreement& each : disagreements()) {
    auto options = shm_options();
    options.timeout = 10s;
    const auto group = join(process, options, std::to_string(++number));
    check_sum(*group);
    const Status failure = disagree(*group, each, process.rank == Rank(0) ? odd : common);
    require(failure.code() == ErrorCode::mismatch && mentions(failure, "#2"),
            fmt::format("{}: {} {}", each.name, to_string(failure.code()), failure.message()));
  }
}

const RegisterRole kImmediate("shm_mismatch_immediate", [](const ProcessRank& process) {
  disagree_about_all(process, Call::immediate, Call::immediate);
});
const RegisterRole kAsynchronous("shm_mismatch_asynchronous", [](const ProcessRank& process) {
  disagree_about_all(process, Call::asynchronous, Call::asynchronous);
});
const RegisterRole kOddImmediate("shm_mismatch_odd_immediate", [](const ProcessRank& process) {
  disagree_about_all(process, Call::immediate, Call::asynchronous);
});
const RegisterRole kOddAsynchronous("shm_mismatch_odd_asynchronous", [](const ProcessRank& process) {
  disagree_about_all(process, Call::asynchronous, Call::immediate);
});

class ShmMismatch : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Calls, ShmMismatch,
                         ::testing::Values("immediate", "asynchronous", "odd_immediate", "odd_asynchronous"),
                         [](const auto& each) { return std::string(each.param); });

TEST_P(ShmMismatch, IsToldToAllRanks) {
  Processes ranks(std::string("shm_mismatch_") + GetParam(), 3);
  EXPECT_EQ(ends(ranks, 3, 120s), (std::vector<int>{0, 0, 0}));
}

}  // namespace
}  // namespace ucxring::testing
