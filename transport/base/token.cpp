#include "transport/base/token.hpp"

#include <fmt/format.h>
#include <sys/random.h>

#include <cerrno>
#include <cstring>

#include "transport/base/error.hpp"

namespace ucxring {

Token random_token() {
  Token token;
  if (getrandom(token.data(), token.size(), 0) != static_cast<ssize_t>(token.size())) {
    throw Error(ErrorCode::transport, fmt::format("no random numbers: {}", std::strerror(errno)));
  }
  return token;
}

std::string to_hex(const Token& token) {
  std::string text;
  for (const std::byte byte : token) text += fmt::format("{:02x}", static_cast<unsigned>(byte));
  return text;
}

}  // namespace ucxring
