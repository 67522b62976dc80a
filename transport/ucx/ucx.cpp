#include "transport/ucx/ucx.hpp"

#include <fmt/format.h>

#include <utility>

#include "transport/base/shared_per_process.hpp"
#include "transport/ucx/context.hpp"
#include "transport/ucx/ucx_transport.hpp"

namespace ucxring::ucx {

std::shared_ptr<Context> make_context(const Config& config, const std::string& master_host) {
  return std::make_shared<UcxContext>(config, master_host, &environment_has);
}

std::shared_ptr<Context> process_context(const Config& config, const std::string& master_host) {
  static SharedPerProcess<Context> of_process;
  static std::weak_ptr<Context> newest;  // also across forks
  return of_process.get([&] {
    if (!newest.expired()) {
      // The thread that answers connections is not in a child, and UCX starts no other one.
      throw Error(ErrorCode::unsupported,
                  "UCX cannot be used in a forked child of a process that uses it: start the child with "
                  "\"spawn\" or \"forkserver\", or before the first group is made");
    }
    auto made = make_context(config, master_host);
    newest = made;
    return made;
  });
}

std::unique_ptr<Transport> create(std::shared_ptr<Context> context, const std::shared_ptr<Store>& store,
                                  Rank rank, int world_size, std::chrono::milliseconds timeout) {
  auto own = std::dynamic_pointer_cast<UcxContext>(std::move(context));
  if (!own)
    throw Error(ErrorCode::invalid_argument, "the context of a UCX group must come from ucx::make_context");
  if (world_size < 1 || rank.value < 0 || rank.value >= world_size) {
    throw Error(ErrorCode::invalid_argument, fmt::format("rank {} of {} ranks", rank.value, world_size));
  }
  UcpWorker worker = make_worker(own->handle(), own->port_range());
  Group group = join(*store, rank, world_size, timeout, address_of(worker.get()));
  auto membership =
      std::make_shared<Membership>(std::move(worker), own->protocol(), rank, std::move(group), own->choice());
  return std::make_unique<UcxTransport>(std::move(own), std::move(membership));
}

std::string library_version() {
  unsigned major = 0;
  unsigned minor = 0;
  unsigned release = 0;
  ucp_get_version(&major, &minor, &release);
  return fmt::format("{}.{}.{}", major, minor, release);
}

}  // namespace ucxring::ucx
