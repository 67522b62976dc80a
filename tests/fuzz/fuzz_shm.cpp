// Greetings come from whoever finds the socket, cards through the store: whatever decodes must survive being
// encoded and decoded again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "transport/base/error.hpp"
#include "transport/shm/card.hpp"
#include "transport/shm/hello.hpp"

namespace {

using namespace ucxring::shm;

void check_hello(std::span<const std::byte> bytes, std::size_t descriptors) {
  const auto hello = decode_hello(bytes, descriptors);
  if (hello && decode_hello(encode(*hello), descriptors) != hello) std::abort();
}

void check_card(std::span<const std::byte> bytes) {
  const Card card = decode_card(bytes);
  const ucxring::Store::Bytes again = encode(card);
  // Compared as bytes: a quota may be no number.
  if (encode(decode_card(again)) != again) std::abort();
}

void check_contacts(std::span<const std::byte> bytes, int world_size) {
  for (const Contact& contact : decode_contacts(bytes, world_size)) {
    if (contact.rank.value < 0 || contact.rank.value >= world_size) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto bytes = std::as_bytes(std::span(data, size)).subspan(1);
  check_hello(bytes, data[0] % 6);
  for (const auto check : {+[](std::span<const std::byte> input) { check_card(input); },
                           +[](std::span<const std::byte> input) { check_contacts(input, 8); }}) {
    try {
      check(bytes);
    } catch (const ucxring::Error& error) {
      if (error.code() != ucxring::ErrorCode::mismatch) std::abort();
    }
  }
  return 0;
}
