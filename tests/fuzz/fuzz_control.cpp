// Control messages come from the network: whatever decodes must survive being encoded and decoded again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "collectives/control.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto message = ucxring::decode(std::as_bytes(std::span(data, size)));
  if (!message) return 0;
  const auto again = ucxring::decode(ucxring::encode(*message));
  if (!again || again->kind != message->kind || again->sequence != message->sequence) std::abort();
  return 0;
}
