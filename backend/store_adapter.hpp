// A c10d store as the store through which ranks find each other.
#pragma once

#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "transport/store.hpp"

namespace ucxring {

/// `store` under ucxring's interface. Waiting calls `check` at least twice a second, so that Ctrl-C ends it;
/// null calls nothing. Errors of the store become `Error` (transport).
[[nodiscard]] std::shared_ptr<Store> adapt_store(c10::intrusive_ptr<c10d::Store> store, void (*check)());

/// The host that every rank reached to get at `store`, or empty when the store has none (a file).
[[nodiscard]] std::string host_of(const c10::intrusive_ptr<c10d::Store>& store);

}  // namespace ucxring
