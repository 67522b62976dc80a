// Strict text forms of setting values, and the nearest known name for a misspelt one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace ucxring {

/// A whole decimal number without sign, blanks or rest; nothing when `text` is not one or does not fit.
[[nodiscard]] std::optional<std::uint64_t> parse_integer(std::string_view text) noexcept;

/// An integer with an optional suffix: Ki, Mi, Gi (powers of 1024) or K, M, G (powers of 1000).
[[nodiscard]] std::optional<std::size_t> parse_bytes(std::string_view text) noexcept;

/// 1/0, true/false, yes/no, on/off, in any case.
[[nodiscard]] std::optional<bool> parse_bool(std::string_view text);

/// The shortest text that `parse_bytes` reads as `bytes`, with the largest binary suffix that divides it.
[[nodiscard]] std::string show_bytes(std::size_t bytes);

/// ASCII lower and upper case.
[[nodiscard]] std::string to_lower(std::string_view text);
[[nodiscard]] std::string to_upper(std::string_view text);

/// Insertions, deletions and replacements that turn `from` into `to` (Levenshtein's distance).
[[nodiscard]] std::size_t edit_distance(std::string_view from, std::string_view to);

/// The known name nearest to `name` by edit distance, the first of equals; empty when none is known.
[[nodiscard]] std::string_view nearest_name(std::string_view name, std::span<const std::string_view> known);

}  // namespace ucxring
