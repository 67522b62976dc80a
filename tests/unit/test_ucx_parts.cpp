#include <gtest/gtest.h>

#include <algorithm>

#include "transport/base/error.hpp"
#include "transport/ucx/buffer_pool.hpp"
#include "transport/ucx/devices.hpp"
#include "transport/ucx/join.hpp"
#include "transport/ucx/object_pool.hpp"
#include "transport/ucx/wire.hpp"

namespace ucxring::ucx {
namespace {

TEST(Wire, FragmentsMustLieInsideTheirMessage) {
  const auto sound = [](std::uint64_t total, std::uint64_t offset, std::size_t length) {
    DataHeader header;
    header.total = total;
    header.offset = offset;
    return is_sound(header, length);
  };
  EXPECT_TRUE(sound(0, 0, 0));
  EXPECT_TRUE(sound(10, 0, 10));
  EXPECT_TRUE(sound(10, 4, 6));
  EXPECT_FALSE(sound(10, 4, 7));
  EXPECT_FALSE(sound(10, 11, 0));
  EXPECT_FALSE(sound(10, 0, 0));
  EXPECT_FALSE(sound(~std::uint64_t{0}, ~std::uint64_t{0}, 1));
}

TEST(Wire, HeadersOfAnotherLengthAreNone) {
  const DataHeader header;
  EXPECT_TRUE(read_header<DataHeader>(&header, sizeof(header)).has_value());
  EXPECT_FALSE(read_header<DataHeader>(&header, sizeof(header) - 1).has_value());
  EXPECT_FALSE(read_header<DataHeader>(nullptr, sizeof(header)).has_value());
}

TEST(ObjectPool, ReusesObjectsAtFixedAddresses) {
  ObjectPool<int> pool;
  int& first = pool.take();
  int& second = pool.take();
  EXPECT_NE(&first, &second);
  EXPECT_EQ(pool.used(), 2U);
  pool.give_back(first);
  EXPECT_EQ(&pool.take(), &first);
  int visited = 0;
  pool.for_each_used([&](int& object) {
    ++visited;
    pool.give_back(object);
  });
  EXPECT_EQ(visited, 2);
  EXPECT_EQ(pool.used(), 0U);
}

TEST(BufferPool, ReusesBuffersOfAClass) {
  BufferPool pool;
  const std::byte* address = nullptr;
  {
    const PooledBuffer buffer = pool.take(1000);
    EXPECT_EQ(buffer.span().size(), 1000U);
    address = buffer.span().data();
  }
  EXPECT_EQ(pool.take(600).span().data(), address);
  EXPECT_EQ(pool.take(0).span().size(), 0U);
  EXPECT_THROW((void)pool.take(~std::size_t{0}), std::bad_alloc);
}

TEST(Join, MembersSurviveTheStore) {
  const Member member{Rank(3), 8, "host a, pid 1", {std::byte{1}, std::byte{2}}};
  const Member copy = decode_member(encode_member(member));
  EXPECT_EQ(copy.rank, member.rank);
  EXPECT_EQ(copy.world_size, member.world_size);
  EXPECT_EQ(copy.where, member.where);
  EXPECT_EQ(copy.address, member.address);
}

TEST(Join, MalformedEntriesAndOtherVersionsAreMismatches) {
  const auto code_of_decoding = [](const Store::Bytes& bytes) {
    try {
      (void)decode_member(bytes);
    } catch (const Error& error) {
      return error.code();
    }
    return ErrorCode::ok;
  };
  Store::Bytes bytes = encode_member({Rank(0), 2, "somewhere", {}});
  EXPECT_EQ(code_of_decoding(bytes), ErrorCode::ok);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_EQ(code_of_decoding({bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size)}),
              ErrorCode::mismatch);
  }
  bytes[0] = std::byte{0x7f};
  EXPECT_EQ(code_of_decoding(bytes), ErrorCode::mismatch);
}

TEST(Devices, LoopbackOnlyWhereTheHostSaysSo) {
  const auto devices = list_devices();
  const auto is_loopback = [&](const std::string& name) {
    return std::any_of(devices.begin(), devices.end(),
                       [&](const auto& d) { return d.name == name && d.loopback; });
  };
  const bool has_other =
      std::any_of(devices.begin(), devices.end(), [](const auto& d) { return !d.loopback && !d.bridge; });
  EXPECT_TRUE(is_loopback(route_device("127.0.0.1")));
  EXPECT_TRUE(is_loopback(route_device("localhost")));
  EXPECT_EQ(is_loopback(route_device("")), !has_other);
  EXPECT_EQ(is_loopback(route_device("no-such-host.invalid")), !has_other);
}

TEST(Devices, AnUnknownOneIsRefused) {
  EXPECT_NO_THROW(require_devices(list_devices().front().name));
  EXPECT_THROW(require_devices("nosuch7"), Error);
}

}  // namespace
}  // namespace ucxring::ucx
