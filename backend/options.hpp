// What a user can choose for one group.
#pragma once

#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "transport/base/config.hpp"

namespace ucxring {

/// Options of one group: the timeout of c10d and all settings of ucxring.
struct OptionsUcxring : c10d::Backend::Options {
  /// Settings as the environment has them. Throws ValueError naming a wrong variable, also where algorithms
  /// are named that do not exist.
  OptionsUcxring();
  OptionsUcxring(const OptionsUcxring&) = default;

  /// Sets `config` by the name of a setting (any case). Throws ValueError that says what is allowed.
  void set(const std::string& name, const std::string& value);

#ifdef C10D_BACKEND_HAS_RECONFIGURE
  c10::intrusive_ptr<c10d::Backend::Options> clone() const override;
#endif

  Config config;
  bool has_timeout = false;  ///< the user chose `timeout` here, which then counts and not that of the group
};

}  // namespace ucxring
