#include "collectives/preference.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "transport/base/parse.hpp"

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

/// As NCCL writes collectives: "AllReduce" and "all_reduce" are the same.
std::string plain(std::string_view name) {
  std::string word = to_lower(name);
  std::erase(word, '_');
  return word;
}

Collective parse_collective(std::string_view name) {
  std::vector<std::string_view> known;
  for (int i = 0; i < kCollectives; ++i) {
    const auto collective = static_cast<Collective>(i);
    known.push_back(to_string(collective));
    if (plain(known.back()) == plain(name)) return collective;
  }
  refuse(fmt::format("no collective \"{}\" (known: {})", name, fmt::join(known, ", ")));
}

bool concerns(const PreferenceClause& clause, const Algorithm& algorithm) noexcept {
  return !clause.collective || *clause.collective == algorithm.collective;
}

std::string parse_name(const PreferenceClause& clause, std::string_view text) {
  std::string name = to_lower(text);
  std::vector<std::string_view> known;
  for (const Algorithm& algorithm : algorithms()) {
    if (!concerns(clause, algorithm)) continue;
    if (algorithm.name == name) return name;
    if (std::find(known.begin(), known.end(), algorithm.name) == known.end()) known.push_back(algorithm.name);
  }
  refuse(fmt::format("no algorithm \"{}\" for {} (known: {})", text,
                     clause.collective ? to_string(*clause.collective) : "any collective",
                     fmt::join(known, ", ")));
}

PreferenceClause parse_clause(std::string_view text) {
  PreferenceClause clause;
  std::string_view names = text;
  if (const auto colon = text.find(':'); colon != std::string_view::npos) {
    clause.collective = parse_collective(trimmed(text.substr(0, colon)));
    names = trimmed(text.substr(colon + 1));
  }
  clause.excludes = names.starts_with('^');
  if (clause.excludes) names.remove_prefix(1);
  for (const std::string_view name : split(names, ',')) clause.names.push_back(parse_name(clause, name));
  return clause;
}

/// Whether a clause for all collectives says something about that of `algorithm`: a list of names does not
/// where none of them is known, so that "ring" leaves barriers alone.
bool applies(const PreferenceClause& clause, Collective collective) noexcept {
  return clause.excludes || std::any_of(clause.names.begin(), clause.names.end(), [&](const auto& name) {
           return find_algorithm(collective, name) != nullptr;
         });
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
      if (earlier.collective != clause.collective) continue;
      refuse(clause.collective ? fmt::format("\"{}\": {} is named twice", part, to_string(*clause.collective))
                               : fmt::format("\"{}\": a second list for all collectives", part));
    }
    clauses.push_back(std::move(clause));
  }
  return clauses;
}

bool allows(const std::vector<PreferenceClause>& clauses, const Algorithm& algorithm) noexcept {
  const PreferenceClause* general = nullptr;
  for (const PreferenceClause& clause : clauses) {
    if (clause.collective == algorithm.collective) return clause.allows(algorithm.name);
    if (!clause.collective) general = &clause;
  }
  return general == nullptr || !applies(*general, algorithm.collective) || general->allows(algorithm.name);
}

}  // namespace ucxring
