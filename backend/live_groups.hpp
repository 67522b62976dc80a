// The groups of this process, so that they can be left in good order when it ends.
#pragma once

#include "backend/process_group.hpp"

namespace ucxring {

/// Remembers `group` without keeping it alive. Thread-safe.
void remember_group(const c10::intrusive_ptr<ProcessGroupUcxring>& group);

/// Shuts down every group that still lives and was made by this process. Called before the interpreter ends,
/// when callbacks can still run. `holds_back`: as of `begin_ending`.
void shut_down_all_groups(bool (*holds_back)());

}  // namespace ucxring
