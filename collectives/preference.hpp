// The grammar of `UCXRING_ALGORITHM`: which algorithms may be chosen. It is that of `NCCL_ALGO`.
//
//   preference = [ clause { ";" clause } ]
//   clause     = [ collective ":" ] [ "^" ] name { "," name }
//
// "all_reduce:ring,tree" allows these two, "broadcast:^chain" all but this one. A clause without a collective
// holds for every collective that has no clause of its own and knows one of its names. What no clause speaks
// of is free. Case, spaces around words and the underscores of collectives do not matter: "AllReduce:Ring".
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/collective.hpp"
#include "collectives/registry.hpp"

namespace ucxring {

/// One clause.
struct PreferenceClause {
  std::optional<Collective> collective;  ///< nothing: all
  bool excludes = false;                 ///< the names are forbidden, instead of the only ones allowed
  std::vector<std::string> names;        ///< at least one, in lower case

  [[nodiscard]] bool allows(std::string_view name) const noexcept;
};

/// Parses `text` and checks every name against the registry. Throws `Error` (invalid_argument) that quotes
/// the offending part and lists what is known there.
[[nodiscard]] std::vector<PreferenceClause> parse_preference(std::string_view text);

/// Whether `clauses` allow `algorithm`.
[[nodiscard]] bool allows(const std::vector<PreferenceClause>& clauses, const Algorithm& algorithm) noexcept;

}  // namespace ucxring
