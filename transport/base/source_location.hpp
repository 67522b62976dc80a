// Where in the source an error was made.
#pragma once

#include <cstdint>

namespace ucxring {

/// `std::source_location` with the same member names, for compilers whose standard library lacks it (clang
/// 14).
class SourceLocation {
 public:
  constexpr SourceLocation() noexcept = default;
  /// As a default argument it names the caller's place.
  [[nodiscard]] static constexpr SourceLocation current(
      const char* file = __builtin_FILE(), std::uint32_t line = __builtin_LINE(),
      const char* function = __builtin_FUNCTION()) noexcept {
    SourceLocation here;
    here.file_ = file;
    here.line_ = line;
    here.function_ = function;
    return here;
  }
  [[nodiscard]] constexpr const char* file_name() const noexcept { return file_; }
  [[nodiscard]] constexpr std::uint32_t line() const noexcept { return line_; }
  [[nodiscard]] constexpr const char* function_name() const noexcept { return function_; }

 private:
  const char* file_ = "";
  const char* function_ = "";
  std::uint32_t line_ = 0;
};

}  // namespace ucxring
