#include "transport/base/parse.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

namespace ucxring {
namespace {

struct Suffix {
  std::string_view text;
  std::size_t factor;
};

// Two-letter suffixes first: "Ki" also ends in a suffix-like letter.
constexpr std::array<Suffix, 6> kSuffixes{{{"Gi", std::size_t{1} << 30},
                                           {"Mi", std::size_t{1} << 20},
                                           {"Ki", std::size_t{1} << 10},
                                           {"G", 1'000'000'000},
                                           {"M", 1'000'000},
                                           {"K", 1'000}}};

char lower(char c) noexcept { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }
char upper(char c) noexcept { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; }

std::string mapped(std::string_view text, char (*map)(char) noexcept) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(), map);
  return result;
}

}  // namespace

std::optional<std::uint64_t> parse_integer(std::string_view text) noexcept {
  std::uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || rest != end) return std::nullopt;
  return value;
}

std::optional<std::size_t> parse_bytes(std::string_view text) noexcept {
  std::size_t factor = 1;
  for (const Suffix& suffix : kSuffixes) {
    if (!text.ends_with(suffix.text)) continue;
    factor = suffix.factor;
    text.remove_suffix(suffix.text.size());
    break;
  }
  const auto value = parse_integer(text);
  if (!value || *value > std::numeric_limits<std::size_t>::max() / factor) return std::nullopt;
  return static_cast<std::size_t>(*value) * factor;
}

std::optional<bool> parse_bool(std::string_view text) {
  const std::string word = to_lower(text);
  if (word == "1" || word == "true" || word == "yes" || word == "on") return true;
  if (word == "0" || word == "false" || word == "no" || word == "off") return false;
  return std::nullopt;
}

std::string show_bytes(std::size_t bytes) {
  for (const Suffix& suffix : kSuffixes) {
    const bool binary = suffix.text.size() == 2;
    if (binary && bytes != 0 && bytes % suffix.factor == 0) {
      return fmt::format("{}{}", bytes / suffix.factor, suffix.text);
    }
  }
  return std::to_string(bytes);
}

std::string to_lower(std::string_view text) { return mapped(text, lower); }
std::string to_upper(std::string_view text) { return mapped(text, upper); }

std::size_t edit_distance(std::string_view from, std::string_view to) {
  std::vector<std::size_t> row(to.size() +
                               1);  // distances of the prefix of `from` read so far to prefixes of `to`
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < from.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < to.size(); ++j) {
      const std::size_t replaced = diagonal + (from[i] == to[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, diagonal + 1, row[j] + 1});
    }
  }
  return row.back();
}

std::string_view nearest_name(std::string_view name, std::span<const std::string_view> known) {
  const auto nearer = [name](std::string_view a, std::string_view b) {
    return edit_distance(name, a) < edit_distance(name, b);
  };
  const auto best = std::min_element(known.begin(), known.end(), nearer);
  return best == known.end() ? std::string_view() : *best;
}

}  // namespace ucxring
