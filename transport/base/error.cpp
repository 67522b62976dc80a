#include "transport/base/error.hpp"

#include <fmt/format.h>

#include <utility>

namespace ucxring {

std::string_view to_string(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::ok:
      return "ok";
    case ErrorCode::invalid_argument:
      return "invalid_argument";
    case ErrorCode::unsupported:
      return "unsupported";
    case ErrorCode::timeout:
      return "timeout";
    case ErrorCode::peer_lost:
      return "peer_lost";
    case ErrorCode::mismatch:
      return "mismatch";
    case ErrorCode::transport:
      return "transport";
    case ErrorCode::cuda:
      return "cuda";
    case ErrorCode::internal:
      return "internal";
  }
  return "unknown";
}

Status::Status(ErrorCode code, std::string message, int peer, SourceLocation where)
    : info_(std::make_shared<const Info>(Info{code, peer, std::move(message), where})) {}

void Status::throw_if_error() const {
  if (!ok()) throw Error(*this);
}

Error::Error(Status status)
    : std::runtime_error(fmt::format("[{}] {}", to_string(status.code()), status.message())),
      status_(std::move(status)) {}

Error::Error(ErrorCode code, std::string message, int peer, SourceLocation where)
    : Error(Status(code, std::move(message), peer, where)) {}

}  // namespace ucxring
