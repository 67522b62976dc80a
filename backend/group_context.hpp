// What the process group and its works share, so that works may outlive the group.
#pragma once

#include <memory>
#include <string>

#include "backend/futures.hpp"
#include "backend/pending.hpp"
#include "collectives/communicator.hpp"

namespace ucxring {

struct GroupContext {
  int rank = 0;
  std::string description;  ///< "group world, rank 1 of 4", for messages
  PendingWorks pending;
  FutureThread futures;
  std::weak_ptr<Communicator> communicator;  ///< owned by the process group
};

}  // namespace ucxring
