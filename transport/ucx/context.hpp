// The UCX context of a process: what its groups have in common.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "transport/base/deadline.hpp"
#include "transport/base/descriptor.hpp"
#include "transport/transport.hpp"
#include "transport/ucx/settings.hpp"

namespace ucxring::ucx {

/// What the context polls: one per group.
class Polled {
 public:
  virtual ~Polled() = default;
  virtual bool progress() = 0;
  /// Whether something is under way here, so that each poll must look.
  [[nodiscard]] virtual bool busy() const noexcept = 0;
  [[nodiscard]] virtual bool arm() = 0;
  [[nodiscard]] virtual int event_fd() const noexcept = 0;
  /// Whether a retired group may be closed without loss.
  [[nodiscard]] virtual bool farewells_sent() noexcept = 0;
  /// Ends everything; the descriptor is invalid afterwards.
  virtual void close() noexcept = 0;
};

/// Owns the UCP context and polls the workers of the groups on it. Every group has a worker of its own: UCX
/// pairs the endpoints of two workers by the order in which either side made them, so groups that shared one
/// would have their connections crossed, and closing one group's would break another's.
class UcxContext final : public Context {
 public:
  UcxContext(const Config& config, const std::string& master_host, const IsSet& is_set);
  ~UcxContext() override;

  bool progress() override;
  [[nodiscard]] bool arm() override;
  [[nodiscard]] int event_fd() const noexcept override { return events_.get(); }

  [[nodiscard]] ucp_context_h handle() const noexcept { return context_.get(); }
  [[nodiscard]] const Protocol& protocol() const noexcept { return protocol_; }
  /// As of `describe_choice`.
  [[nodiscard]] const std::string& choice() const noexcept { return choice_; }
  /// The setting that bounds the ports, with its value; empty when none does.
  [[nodiscard]] const std::string& port_range() const noexcept { return port_range_; }

  /// Polls `group` from now on. May be called while another thread drives the context.
  void add(std::shared_ptr<Polled> group);
  /// Goes on polling `group` until its farewells are sent, for two seconds at most, and then closes it.
  /// Called by the thread that drives the context, outside of `progress()`.
  void retire(Polled& group) noexcept;

 private:
  struct Entry {
    std::shared_ptr<Polled> group;
    Deadline retired;  // when to close it, farewells or not; never while it is in use
    bool is_retired = false;
  };

  void admit_newcomers();
  void close_retired(bool all) noexcept;

  UcpContext context_;
  Protocol protocol_;
  std::string choice_;
  std::string port_range_;
  Descriptor events_;
  std::vector<Entry> groups_;
  std::size_t retired_ = 0;  // of them
  unsigned turn_ = 0;
  bool poll_all_ = false;

  std::atomic<bool> has_newcomers_{false};
  std::mutex mutex_;  // guards newcomers_
  std::vector<std::shared_ptr<Polled>> newcomers_;
};

}  // namespace ucxring::ucx
