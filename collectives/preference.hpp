// The grammar of `UCXRING_ALGORITHM`: which algorithms may be chosen.
//
//   preference = [ clause { ";" clause } ]
//   clause     = collective ":" [ "^" ] name { "," name }
//
// "all_reduce:ring,tree" allows these two, "broadcast:^chain" all but this one. A collective without a clause
// is free. Spaces around words do not matter.
#pragma once

#include <string_view>
#include <vector>

#include "collectives/collective.hpp"

namespace ucxring {

/// One clause. The names are views of the text that was parsed.
struct PreferenceClause {
  Collective collective = Collective::all_reduce;
  bool excludes = false;                ///< the names are forbidden, instead of the only ones allowed
  std::vector<std::string_view> names;  ///< at least one

  [[nodiscard]] bool allows(std::string_view name) const noexcept;
};

/// Parses `text` and checks every name against the registry. Throws `Error` (invalid_argument) that quotes
/// the offending part and lists what is known there.
[[nodiscard]] std::vector<PreferenceClause> parse_preference(std::string_view text);

}  // namespace ucxring
