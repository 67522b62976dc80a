// Errors of every layer: one exception type for the public edge, one status type for the progress path.
#pragma once

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

#include "transport/base/source_location.hpp"

namespace ucxring {

/// What kind of failure happened; each has a remedy of its own, which the message names.
enum class ErrorCode : std::uint8_t {
  ok,
  invalid_argument,  ///< the caller passed something that cannot work; nothing was sent
  unsupported,       ///< a valid request that this build or algorithm does not implement
  timeout,           ///< a deadline passed; the message names the ranks that have not arrived
  peer_lost,         ///< a peer died or its connection broke
  mismatch,          ///< ranks called different operations, counts, dtypes, roots or reduce ops
  transport,         ///< the network or an operating-system call failed
  cuda,              ///< the CUDA driver or runtime failed
  internal,          ///< a bug of ucxring
};

/// Lower-case name as it appears in messages, e.g. "peer_lost".
[[nodiscard]] std::string_view to_string(ErrorCode code) noexcept;

/// Outcome of a call on the progress path, where nothing may throw. Default constructed it is success and
/// holds no memory; copies of a failure share one immutable description.
class [[nodiscard]] Status {
 public:
  Status() noexcept = default;

  /// A failure. `peer` is the rank the failure concerns, -1 when none; `message` says who, whom, what and the
  /// remedy.
  Status(ErrorCode code, std::string message, int peer = -1,
         SourceLocation where = SourceLocation::current());

  [[nodiscard]] bool ok() const noexcept { return info_ == nullptr; }
  [[nodiscard]] ErrorCode code() const noexcept { return info_ ? info_->code : ErrorCode::ok; }
  [[nodiscard]] int peer() const noexcept { return info_ ? info_->peer : -1; }
  [[nodiscard]] std::string_view message() const noexcept {
    return info_ ? std::string_view(info_->message) : std::string_view();
  }
  [[nodiscard]] SourceLocation where() const noexcept { return info_ ? info_->where : SourceLocation(); }

  /// Throws `Error` when this is a failure.
  void throw_if_error() const;

 private:
  struct Info {
    ErrorCode code;
    int peer;
    std::string message;
    SourceLocation where;
  };
  std::shared_ptr<const Info> info_;
};

/// The exception that crosses the public edge. `what()` is "[code] message".
class Error : public std::runtime_error {
 public:
  explicit Error(Status status);
  Error(ErrorCode code, std::string message, int peer = -1, SourceLocation where = SourceLocation::current());

  [[nodiscard]] ErrorCode code() const noexcept { return status_.code(); }
  [[nodiscard]] int peer() const noexcept { return status_.peer(); }
  [[nodiscard]] const Status& status() const noexcept { return status_; }

 private:
  Status status_;
};

}  // namespace ucxring
