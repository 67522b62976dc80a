// Settings that all ranks of a group must have alike.
#pragma once

#include <chrono>
#include <string>

#include "transport/base/config.hpp"
#include "transport/store.hpp"
#include "transport/types.hpp"

namespace ucxring {

/// Compares the settings that decide what a rank sends to whom with those of rank 0, before the ranks meet
/// over a transport: ranks that differ would wait for each other, or take each other's messages for wrong
/// calls. Collective over all ranks; costs each of them one key and, but for rank 0, one look at that of rank
/// 0. Throws `Error` (mismatch) that says who has what on a rank that differs, which tells the others: they
/// get the same error where they wait for it.
void require_same_settings(Store& store, Rank rank, int world_size, std::chrono::milliseconds timeout,
                           const Config& config);

}  // namespace ucxring
