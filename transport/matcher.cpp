#include "transport/matcher.hpp"

#include <fmt/format.h>

#include <cstring>

namespace ucxring {

PostedReceive PostedReceive::into(Buffer target, Tag tag, Stamp stamp, Completion& done) noexcept {
  PostedReceive receive;
  receive.tag = tag;
  receive.stamp = stamp;
  receive.target = target;
  receive.bytes = target.bytes;
  receive.done = &done;
  return receive;
}

PostedReceive PostedReceive::applying(Sink sink, std::size_t bytes, Tag tag, Stamp stamp,
                                      Completion& done) noexcept {
  PostedReceive receive;
  receive.tag = tag;
  receive.stamp = stamp;
  receive.sink = sink;
  receive.bytes = bytes;
  receive.apply = true;
  receive.done = &done;
  return receive;
}

Status PostedReceive::check_match(Rank peer, Stamp other_stamp, std::size_t other_bytes) const {
  if (other_stamp == stamp && other_bytes == bytes) return {};
  return Status(
      ErrorCode::mismatch,
      fmt::format("rank {} sent {} bytes with stamp {:016x} where {} bytes with stamp {:016x} were expected "
                  "(operation {}, lane {}, message {}): the ranks called different operations",
                  peer.value, other_bytes, other_stamp, bytes, stamp, tag.sequence(), tag.lane(), tag.step()),
      peer.value);
}

bool PostedReceive::accept(Rank peer, Stamp other_stamp, std::size_t other_bytes) const {
  Status status = check_match(peer, other_stamp, other_bytes);
  if (status.ok()) return true;
  done->received_stamp = other_stamp;
  done->received_bytes = other_bytes;
  done->fail(std::move(status));
  return false;
}

void PostedReceive::deliver(std::size_t offset, std::span<const std::byte> range) const {
  if (range.empty()) return;
  if (apply) {
    sink.apply(sink.context, offset, range);
  } else {
    std::memcpy(target.data + offset, range.data(), range.size());
  }
}

}  // namespace ucxring
