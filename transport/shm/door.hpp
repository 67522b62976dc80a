// Unix sockets through which ranks of one host hand each other descriptors.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "transport/base/descriptor.hpp"
#include "transport/base/token.hpp"

namespace ucxring::shm {

/// Sockets that listen under a name: an abstract one, which is seen in this network namespace only, and with
/// a directory also one there, which every container sees that has the directory. Never blocks.
class Door {
 public:
  /// `directory` may be empty. Throws `Error` (transport) naming what failed.
  Door(const Token& name, const std::string& directory);
  /// Removes the socket in the directory.
  ~Door();
  Door(const Door&) = delete;
  Door& operator=(const Door&) = delete;

  /// The next connection that waits; nothing when none does.
  [[nodiscard]] Descriptor accept() const noexcept;

 private:
  Descriptor abstract_;
  Descriptor in_directory_;
  std::string path_;
};

/// A connection to the door `name`; nothing when nobody answers, as from another host.
[[nodiscard]] Descriptor knock(const Token& name, const std::string& directory);

/// One message with descriptors.
struct Parcel {
  std::vector<std::byte> bytes;
  std::vector<Descriptor> descriptors;
};

/// Sends one message; the descriptors stay the caller's. False when the peer is gone.
[[nodiscard]] bool send_parcel(const Descriptor& socket, std::span<const std::byte> bytes,
                               std::span<const int> descriptors) noexcept;

/// The next message, at most `kHelloBytes` and `kHelloDescriptors` large; nothing when there is none, or it
/// did not arrive whole.
[[nodiscard]] std::optional<Parcel> receive_parcel(const Descriptor& socket);

}  // namespace ucxring::shm
