// Random 128-bit names and secrets.
#pragma once

#include <array>
#include <cstddef>
#include <string>

namespace ucxring {

/// 128 bits that nobody guesses and no two objects share.
using Token = std::array<std::byte, 16>;

/// A fresh token. Throws `Error` (transport) when the kernel gives no random numbers.
[[nodiscard]] Token random_token();

/// 32 hexadecimal digits.
[[nodiscard]] std::string to_hex(const Token& token);

}  // namespace ucxring
