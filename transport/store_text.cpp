#include "transport/store_text.hpp"

#include <fmt/format.h>

#include <charconv>
#include <span>
#include <string_view>

#include "transport/base/error.hpp"

namespace ucxring {

std::int64_t read_counter(const std::string& key, const Store::Bytes& value) {
  if (value.empty()) return 0;
  const std::string_view text(reinterpret_cast<const char*>(value.data()), value.size());
  std::int64_t count = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc() || rest != text.data() + text.size()) {
    throw Error(ErrorCode::invalid_argument, fmt::format("store key \"{}\" holds no counter to add to", key));
  }
  return count;
}

Store::Bytes write_counter(std::int64_t count) {
  const std::string text = std::to_string(count);
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

void throw_key_timeout(const std::string& key, std::chrono::milliseconds waited) {
  throw Error(ErrorCode::timeout,
              fmt::format("store key \"{}\" was not set within {} ms: the rank that sets it has not arrived",
                          key, waited.count()));
}

}  // namespace ucxring
