#include "transport/selector.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <set>

#include "transport/base/log.hpp"
#include "transport/mixed/context.hpp"
#include "transport/mixed/mixed.hpp"
#include "transport/same_settings.hpp"
#include "transport/shm/shm.hpp"
#include "transport/ucx/ucx.hpp"

namespace ucxring {
namespace {

using std::chrono::milliseconds;

bool all_on_one_host(const std::vector<int>& hosts) {
  return std::all_of(hosts.begin(), hosts.end(), [](int host) { return host == 0; });
}

/// Every rank is alone.
bool nobody_shares(const std::vector<int>& hosts) {
  return hosts.size() > 1 &&
         *std::max_element(hosts.begin(), hosts.end()) == static_cast<int>(hosts.size()) - 1;
}

/// Whether this process hears `line` for the first time: each of its groups finds the same.
bool is_news(const std::string& line) {
  static std::mutex mutex;
  static std::set<std::string> known;
  const std::lock_guard lock(mutex);
  return known.insert(line).second;
}

void explain(const shm::Joined& joined) {
  if (joined.reason.empty() || !is_news(joined.reason)) return;
  if (joined.avoidable) {
    log::warning("UCX instead of shared memory to some ranks: {}", joined.reason);
  } else {
    log::info("UCX to some ranks: {}", joined.reason);
  }
}

}  // namespace

std::unique_ptr<Transport> connect(const std::shared_ptr<Store>& store, Rank rank, int world_size,
                                   milliseconds timeout, const Config& config,
                                   const std::string& master_host) {
  require_same_settings(*store, rank, world_size, timeout, config);
  const auto over_ucx = [&] {
    return ucx::create(ucx::process_context(config, master_host), store, rank, world_size, timeout);
  };
  const auto over_both = [&](std::unique_ptr<Transport> near) {
    // Before a membership over UCX is there, which only the driver of its context could end again.
    const auto context = mixed::context_over(near->context(), ucx::process_context(config, master_host));
    return mixed::create(std::move(near), over_ucx());
  };
  if (config.transport == "ucx") return over_ucx();
  shm::Joined joined = shm::join(shm::process_context(), store, rank, world_size, timeout, config);
  const std::vector<int> hosts = joined.transport->hosts();
  if (all_on_one_host(hosts)) return std::move(joined.transport);
  if (config.transport == "shm") {
    throw Error(
        ErrorCode::unsupported,
        fmt::format("UCXRING_TRANSPORT=shm, but not all ranks share memory: {}; set it to auto, or run all "
                    "ranks where they can",
                    joined.reason));
  }
  explain(joined);
  if (!nobody_shares(hosts)) return over_both(std::move(joined.transport));
  joined.transport.reset();
  return over_ucx();
}

}  // namespace ucxring
