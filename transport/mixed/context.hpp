// Two contexts polled as one.
#pragma once

#include <memory>

#include "transport/base/descriptor.hpp"
#include "transport/transport.hpp"

namespace ucxring::mixed {

/// Polls `near` every time and `far`, where a poll may be a system call, seldom while nothing comes from
/// there.
class MixedContext final : public Context {
 public:
  /// Throws `Error`: invalid_argument for a context without a descriptor, transport when the system has none
  /// left.
  MixedContext(std::shared_ptr<Context> near, std::shared_ptr<Context> far);

  bool progress() override;
  [[nodiscard]] bool arm() override;
  [[nodiscard]] int event_fd() const noexcept override { return events_.get(); }

 private:
  std::shared_ptr<Context> near_;
  std::shared_ptr<Context> far_;
  Descriptor events_;         // an epoll of both
  unsigned quiet_polls_ = 0;  // of far, since something moved there or somebody slept
  unsigned skipped_ = 0;      // polls of near alone
};

/// The context over these two; groups over the same two get the same one. Thread-safe.
[[nodiscard]] std::shared_ptr<Context> context_over(const std::shared_ptr<Context>& near,
                                                    const std::shared_ptr<Context>& far);

}  // namespace ucxring::mixed
