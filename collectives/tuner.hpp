// Chooses the algorithm of each operation: the one that the cost model predicts to be fastest.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <vector>

#include "collectives/cost_model.hpp"
#include "collectives/preference.hpp"
#include "collectives/registry.hpp"
#include "transport/base/config.hpp"

namespace ucxring {

/// One group's choices. They are a pure function of collective, size, layout, settings and parameters, all of
/// which are the same on every rank, so all ranks choose alike. Sizes are told apart by powers of two.
/// Predictions are made when a size is first asked for, and kept. Not thread-safe.
class Tuner {
 public:
  /// A size is at most 2^class bytes; the last class holds all that are larger.
  static constexpr int kSizeClasses = 41;

  /// `hosts`: as `Transport::hosts()`, one number per rank. Throws as `check_choice`.
  Tuner(std::vector<int> hosts, const Config& config, const CostParameters& parameters);

  /// The algorithm for an operation of `bytes` bytes (the larger of input and output) in this group of two or
  /// more ranks. Throws `Error` (invalid_argument) when the settings leave none that suits the group.
  [[nodiscard]] const Algorithm& choose(Collective collective, std::size_t bytes);

  /// The same for an uneven operation: `bytes` only where all ranks know it, which then choose by size.
  [[nodiscard]] const Algorithm& choose_uneven(Collective collective, std::optional<std::size_t> bytes);

  /// An algorithm that may be chosen.
  struct Candidate {
    const Algorithm* algorithm = nullptr;
    std::optional<Cost> cost;  ///< nothing when the group is too large to walk through this one
  };
  /// Every candidate of the size class of `bytes`, best first; `choose` returns the first. Throws like it.
  [[nodiscard]] std::vector<Candidate> candidates(Collective collective, std::size_t bytes) const;

  [[nodiscard]] int world_size() const noexcept { return static_cast<int>(hosts_.size()); }
  [[nodiscard]] const std::vector<int>& hosts() const noexcept { return hosts_; }
  [[nodiscard]] const Config& config() const noexcept { return config_; }
  [[nodiscard]] const CostParameters& parameters() const noexcept { return parameters_; }

 private:
  [[nodiscard]] std::vector<const Algorithm*> suitable(Collective collective) const;
  [[nodiscard]] std::vector<const Algorithm*> suitable_uneven(Collective collective) const;
  [[nodiscard]] std::vector<Candidate> ranked(const std::vector<const Algorithm*>& rows,
                                              std::size_t bytes) const;
  [[nodiscard]] std::optional<Cost> cost_of(const Algorithm& algorithm, std::size_t bytes) const;

  std::vector<int> hosts_;
  Config config_;
  CostParameters parameters_;
  std::vector<PreferenceClause> preference_;
  using Choices = std::array<std::array<const Algorithm*, kSizeClasses>, kCollectives>;
  Choices chosen_{};
  Choices chosen_uneven_{};
};

/// Checks what the settings allow, without a group. Throws `Error` (invalid_argument) for a preference that
/// is malformed, names something unknown or leaves no algorithm for a collective.
void check_choice(const Config& config);

}  // namespace ucxring
