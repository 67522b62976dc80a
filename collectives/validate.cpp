#include "collectives/validate.hpp"

#include "collectives/symbolic/form.hpp"
#include "collectives/symbolic/matching.hpp"
#include "collectives/symbolic/rehearsal.hpp"
#include "collectives/symbolic/results.hpp"

namespace ucxring {

Validation validate(std::span<const Schedule> schedules, Collective collective, Rank root, Parts parts) {
  using namespace symbolic;
  const Problem problem{schedules, collective, root, parts};
  Validation validation;
  validation.status = check_form(problem);
  if (!validation.status.ok()) return validation;
  const Matching matching(problem, validation.status);
  if (!validation.status.ok()) return validation;

  Expressions expressions(problem.world_size());
  for (const bool in_place : {true, false}) {
    Rehearsal rehearsal(problem, matching, expressions, in_place);
    validation.status = rehearsal.run();
    if (validation.status.ok()) validation.status = check_results(problem, rehearsal, expressions);
    if (!validation.status.ok()) return validation;
    validation.cost = rehearsal.cost();
  }
  return validation;
}

}  // namespace ucxring
