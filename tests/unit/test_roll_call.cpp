#include "transport/roll_call.hpp"

#include <gtest/gtest.h>

#include "transport/same_settings.hpp"

namespace ucxring {
namespace {

using namespace std::chrono_literals;

/// What `call` throws.
template <typename Call>
Status status_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.status();
  }
  return {};
}

bool mentions(const Status& status, std::string_view words) {
  return status.message().find(words) != std::string_view::npos;
}

Config with_slices(std::size_t bytes) {
  Config config;
  config.slice_bytes = bytes;
  return config;
}

TEST(RollCall, WhoDoesNotComeIsNamed) {
  const auto store = make_memory_store();
  RollCall late(*store, "test", Rank(0), 3, 1ms);
  RollCall(*store, "test", Rank(1), 3, 1ms).say("step", {});
  const Status status = status_of([&] { static_cast<void>(late.hear("step", Rank(2))); });
  EXPECT_EQ(status.code(), ErrorCode::timeout);
  EXPECT_TRUE(mentions(status, "rank 2 of 3 has not joined")) << status.message();
}

TEST(RollCall, ATimeoutWithNobodyAbsentSaysSo) {
  const auto store = make_memory_store();
  RollCall late(*store, "test", Rank(0), 2, 1ms);
  RollCall(*store, "test", Rank(1), 2, 1ms).say("step", {});
  const Status status = status_of([&] { late.throw_timeout("step"); });
  EXPECT_EQ(status.code(), ErrorCode::timeout);
  EXPECT_TRUE(mentions(status, "all 2 ranks have come to step test/step")) << status.message();
}

TEST(RollCall, ARefusalIsHeard) {
  const auto store = make_memory_store();
  RollCall(*store, "test", Rank(1), 2, 1s).refuse("step", Status(ErrorCode::mismatch, "for a reason"));
  RollCall own(*store, "test", Rank(0), 2, 1s);
  const Status status = status_of([&] { static_cast<void>(own.hear("step", Rank(1))); });
  EXPECT_EQ(status.code(), ErrorCode::mismatch);
  EXPECT_EQ(status.message(), "for a reason");
  EXPECT_EQ(status.peer(), 1);
}

TEST(SameSettings, DifferencesAreNamedAndTold) {
  const auto store = make_memory_store();
  require_same_settings(*store, Rank(0), 2, 1s, with_slices(0));
  const Status status =
      status_of([&] { require_same_settings(*store, Rank(1), 2, 1s, with_slices(64 << 10)); });
  EXPECT_EQ(status.code(), ErrorCode::mismatch);
  EXPECT_TRUE(mentions(status, "rank 1 has UCXRING_SLICE_BYTES=64Ki, rank 0 has 0")) << status.message();
  RollCall meeting(*store, kShmRollCall, Rank(0), 2, 1s);
  const Status told = status_of([&] { static_cast<void>(meeting.hear(kShmFirstStep, Rank(1))); });
  EXPECT_EQ(told.message(), status.message());
}

TEST(SameSettings, WhatConcernsOneRankAloneMayDiffer) {
  const auto store = make_memory_store();
  Config other;
  other.net_devices = "eth7";
  other.lanes = 3;
  other.log_level = "error";
  require_same_settings(*store, Rank(0), 2, 1s, Config{});
  EXPECT_NO_THROW(require_same_settings(*store, Rank(1), 2, 1s, other));
}

TEST(SameSettings, AMissingRank0CountsAsAnAttempt) {
  const auto store = make_memory_store();
  EXPECT_EQ(status_of([&] { require_same_settings(*store, Rank(1), 2, 1ms, Config{}); }).code(),
            ErrorCode::timeout);
  EXPECT_EQ(store->add("shm/gen/1", 0), 1);
}

}  // namespace
}  // namespace ucxring
