#include "backend/errors.hpp"

#include <c10/util/Exception.h>
#include <fmt/format.h>

#ifndef UCXRING_VERSION
#error "UCXRING_VERSION is set by the build"
#endif

namespace ucxring {
namespace {

template <typename Exception>
[[noreturn]] void raise(const std::string& message) {
  throw Exception({__func__, __FILE__, static_cast<std::uint32_t>(__LINE__)}, message);
}

/// As the messages of all errors begin.
std::string with_code(ErrorCode code, std::string_view message) {
  return fmt::format("ucxring [{}] {}", to_string(code), message);
}

[[noreturn]] void raise_for(ErrorCode code, const std::string& message) {
  switch (code) {
    case ErrorCode::invalid_argument:
      throw_value_error(message);
    case ErrorCode::unsupported:
      raise<c10::NotImplementedError>(message);
    default:
      throw_backend_error(message);
  }
}

}  // namespace

std::exception_ptr to_torch_exception(const Status& status, std::string_view context) {
  std::string message = with_code(status.code(), status.message());
  if (!context.empty()) message += fmt::format(" ({})", context);
  try {
    raise_for(status.code(), message);
  } catch (...) {
    return std::current_exception();
  }
}

void throw_value_error(const std::string& message) { raise<c10::ValueError>(message); }
void throw_invalid_argument(const std::string& message) {
  raise<c10::ValueError>(with_code(ErrorCode::invalid_argument, message));
}
void throw_wrong_type(const std::string& message) {
  raise<c10::TypeError>(with_code(ErrorCode::invalid_argument, message));
}
void throw_runtime_error(const std::string& message) { raise<c10::Error>(message); }
void throw_backend_error(const std::string& message) { raise<c10::DistBackendError>(message); }

void throw_out_of_memory(const std::string& message) { raise<c10::OutOfMemoryError>(message); }

void throw_not_implemented(std::string_view what) {
  const std::string message = fmt::format("{} is not implemented yet in ucxring {}", what, UCXRING_VERSION);
  raise<c10::NotImplementedError>(with_code(ErrorCode::unsupported, message));
}

}  // namespace ucxring
