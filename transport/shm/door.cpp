#include "transport/shm/door.hpp"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>

#include "transport/base/error.hpp"
#include "transport/shm/hello.hpp"

namespace ucxring::shm {
namespace {

constexpr int kBacklog = 4096;

struct Address {
  sockaddr_un name{};
  socklen_t bytes = 0;
  [[nodiscard]] const sockaddr* get() const noexcept { return reinterpret_cast<const sockaddr*>(&name); }
};

std::string file_name(const Token& name) { return "ucxring-" + to_hex(name); }

std::string path_in(const std::string& directory, const Token& name) {
  return directory + "/" + file_name(name);
}

/// Abstract names begin with a zero byte and have no end mark.
Address address_of(const std::string& text, bool abstract) {
  Address address;
  address.name.sun_family = AF_UNIX;
  const std::size_t skip = abstract ? 1 : 0;
  if (text.size() + 1 > sizeof(address.name.sun_path)) {
    throw Error(ErrorCode::invalid_argument, fmt::format("the name of socket {} is too long", text));
  }
  std::memcpy(address.name.sun_path + skip, text.data(), text.size());
  address.bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + skip + text.size());
  return address;
}

Descriptor make_socket() {
  return Descriptor(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

Descriptor listen_at(const Address& address, const std::string& shown) {
  Descriptor socket = make_socket();
  if (socket && bind(socket.get(), address.get(), address.bytes) == 0 &&
      listen(socket.get(), kBacklog) == 0) {
    return socket;
  }
  throw Error(ErrorCode::transport,
              fmt::format("cannot listen at socket {}: {}", shown, std::strerror(errno)));
}

Descriptor connect_to(const Address& address) noexcept {
  Descriptor socket = make_socket();
  if (socket && connect(socket.get(), address.get(), address.bytes) == 0) return socket;
  return {};
}

/// Room for the descriptors of one message, aligned as the kernel wants it.
struct ControlRoom {
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(kHelloDescriptors * sizeof(int))> bytes{};
};

void take_descriptors(msghdr& message, std::vector<Descriptor>& descriptors) {
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr; part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int descriptor = -1;
      std::memcpy(&descriptor, CMSG_DATA(part) + i * sizeof(int), sizeof(int));
      descriptors.emplace_back(descriptor);
    }
  }
}

}  // namespace

Door::Door(const Token& name, const std::string& directory)
    : abstract_(listen_at(address_of(file_name(name), true), "@" + file_name(name))) {
  if (directory.empty()) return;
  const std::string path = path_in(directory, name);
  in_directory_ = listen_at(address_of(path, false), path);
  path_ = path;
  chmod(path.c_str(), 0666);  // other users may knock: the secret says who belongs here
}

Door::~Door() {
  if (!path_.empty()) unlink(path_.c_str());
}

Descriptor Door::accept() const noexcept {
  for (const Descriptor* door : {&abstract_, &in_directory_}) {
    if (!*door) continue;
    Descriptor visitor(accept4(door->get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (visitor) return visitor;
  }
  return {};
}

Descriptor knock(const Token& name, const std::string& directory) {
  Descriptor socket = connect_to(address_of(file_name(name), true));
  if (socket || directory.empty()) return socket;
  return connect_to(address_of(path_in(directory, name), false));
}

bool send_parcel(const Descriptor& socket, std::span<const std::byte> bytes,
                 std::span<const int> descriptors) noexcept {
  iovec content{const_cast<std::byte*>(bytes.data()), bytes.size()};  // sendmsg only reads it
  ControlRoom room;
  msghdr message{};
  message.msg_iov = &content;
  message.msg_iovlen = 1;
  if (descriptors.size() > kHelloDescriptors) return false;
  if (!descriptors.empty()) {
    message.msg_control = room.bytes.data();
    message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    cmsghdr* const part = CMSG_FIRSTHDR(&message);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(part), descriptors.data(), descriptors.size_bytes());
  }
  return sendmsg(socket.get(), &message, MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
}

std::optional<Parcel> receive_parcel(const Descriptor& socket) {
  Parcel parcel;
  parcel.bytes.resize(kHelloBytes);
  iovec content{parcel.bytes.data(), parcel.bytes.size()};
  ControlRoom room;
  msghdr message{};
  message.msg_iov = &content;
  message.msg_iovlen = 1;
  message.msg_control = room.bytes.data();
  message.msg_controllen = room.bytes.size();
  const ssize_t received = recvmsg(socket.get(), &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  if (received < 0) return std::nullopt;
  take_descriptors(message, parcel.descriptors);
  if (received == 0 || (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) return std::nullopt;
  parcel.bytes.resize(static_cast<std::size_t>(received));
  return parcel;
}

}  // namespace ucxring::shm
