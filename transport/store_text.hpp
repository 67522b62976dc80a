// What the stores share: counters as decimal text, as in torch's stores, and the error of a wait that ran
// out.
#pragma once

#include <cstdint>
#include <string>

#include "transport/store.hpp"

namespace ucxring {

/// The counter in `value`; 0 when `value` is empty. Throws `Error` (invalid_argument) when it holds something
/// else.
[[nodiscard]] std::int64_t read_counter(const std::string& key, const Store::Bytes& value);

/// `count` as decimal text.
[[nodiscard]] Store::Bytes write_counter(std::int64_t count);

/// Throws the timeout of `Store::get`.
[[noreturn]] void throw_key_timeout(const std::string& key, std::chrono::milliseconds waited);

}  // namespace ucxring
