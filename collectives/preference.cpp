#include "collectives/preference.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>

#include "collectives/registry.hpp"

namespace ucxring {
namespace {

[[noreturn]] void refuse(const std::string& why) {
  throw Error(
      ErrorCode::invalid_argument,
      fmt::format("UCXRING_ALGORITHM: {}; write e.g. \"all_reduce:ring,tree;broadcast:^chain\"", why));
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\n\r";
  const auto first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const auto end = text.find(separator);
    parts.push_back(trimmed(text.substr(0, end)));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

Collective parse_collective(std::string_view name) {
  std::string known;
  for (int i = 0; i < kCollectives; ++i) {
    const auto collective = static_cast<Collective>(i);
    if (to_string(collective) == name) return collective;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", to_string(collective));
  }
  refuse(fmt::format("no collective \"{}\" (known: {})", name, known));
}

void check_name(Collective collective, std::string_view name) {
  if (find_algorithm(collective, name) != nullptr) return;
  std::string known;
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.collective != collective) continue;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", algorithm.name);
  }
  refuse(fmt::format("no algorithm \"{}\" for {} (known: {})", name, to_string(collective), known));
}

PreferenceClause parse_clause(std::string_view text) {
  const auto colon = text.find(':');
  if (colon == std::string_view::npos) refuse(fmt::format("\"{}\" has no colon", text));
  PreferenceClause clause;
  clause.collective = parse_collective(trimmed(text.substr(0, colon)));
  std::string_view names = trimmed(text.substr(colon + 1));
  clause.excludes = names.starts_with('^');
  if (clause.excludes) names.remove_prefix(1);
  clause.names = split(names, ',');
  for (const std::string_view name : clause.names) check_name(clause.collective, name);
  return clause;
}

}  // namespace

bool PreferenceClause::allows(std::string_view name) const noexcept {
  const bool listed = std::find(names.begin(), names.end(), name) != names.end();
  return listed != excludes;
}

std::vector<PreferenceClause> parse_preference(std::string_view text) {
  std::vector<PreferenceClause> clauses;
  for (const std::string_view part : split(text, ';')) {
    if (part.empty()) continue;
    PreferenceClause clause = parse_clause(part);
    for (const PreferenceClause& earlier : clauses) {
      if (earlier.collective == clause.collective) {
        refuse(fmt::format("{} is named twice", to_string(clause.collective)));
      }
    }
    clauses.push_back(std::move(clause));
  }
  return clauses;
}

}  // namespace ucxring
