// Errors of ucxring as the exceptions that torch turns into Python's.
#pragma once

#include <exception>
#include <string>
#include <string_view>
#include <utility>

#include "transport/base/error.hpp"

namespace ucxring {

/// The exception for a failure: ValueError for invalid_argument, NotImplementedError for unsupported,
/// torch.distributed.DistBackendError for the rest. `context` ("group world, rank 1 of 4") leads the message;
/// may be empty.
[[nodiscard]] std::exception_ptr to_torch_exception(const Status& status, std::string_view context);

/// Throws torch's ValueError with `message`.
[[noreturn]] void throw_value_error(const std::string& message);
/// Throws ValueError for an argument of a call; `message` ("all_gather: …") says which, what was given and
/// what is wanted. `ucxring [invalid_argument]` leads it, as in every error of a group.
[[noreturn]] void throw_invalid_argument(const std::string& message);
/// As `throw_invalid_argument` for a dtype, which is a TypeError.
[[noreturn]] void throw_wrong_type(const std::string& message);
/// Throws RuntimeError with `message`.
[[noreturn]] void throw_runtime_error(const std::string& message);
/// Throws torch.distributed.DistBackendError with `message`.
[[noreturn]] void throw_backend_error(const std::string& message);
/// Throws torch.OutOfMemoryError with `message`.
[[noreturn]] void throw_out_of_memory(const std::string& message);
/// Throws torch's NotImplementedError: `what` ("gather") is not there yet in this version of ucxring.
[[noreturn]] void throw_not_implemented(std::string_view what);

/// Runs `body`; an `Error` that leaves it becomes the exception of torch.
template <typename Body>
decltype(auto) translate_errors(std::string_view context, Body&& body) {
  try {
    return std::forward<Body>(body)();
  } catch (const Error& error) {
    std::rethrow_exception(to_torch_exception(error.status(), context));
  }
}

}  // namespace ucxring
