#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>
#include <span>
#include <system_error>
#include <thread>
#include <utility>

#include "transport/base/deadline.hpp"
#include "transport/base/descriptor.hpp"
#include "transport/base/error.hpp"
#include "transport/base/token.hpp"
#include "transport/store.hpp"
#include "transport/store_text.hpp"

namespace ucxring {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLongestName = 240;  // below NAME_MAX of every usual file system

[[noreturn]] void throw_file_error(const char* what, const fs::path& path, int error) {
  throw Error(ErrorCode::transport, fmt::format("file store: cannot {} {}: {}", what, path.string(),
                                                std::generic_category().message(error)));
}

bool is_plain(char c) noexcept {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '-';
}

/// A file name that is unique for the key; names of the store's own files begin with a dot, which is never
/// plain.
std::string file_name(const std::string& key) {
  std::string name;
  for (const char c : key) {
    name += is_plain(c) ? std::string(1, c) : fmt::format("%{:02x}", static_cast<unsigned char>(c));
  }
  if (name.empty() || name.size() > kLongestName) {
    throw Error(ErrorCode::invalid_argument, fmt::format("file store: key \"{}\" is empty or too long", key));
  }
  return name;
}

/// Exclusive lock on the directory's counters, among threads and processes, until it goes out of scope.
class DirectoryLock {
 public:
  explicit DirectoryLock(const fs::path& path)
      : file_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
    if (!file_) throw_file_error("open", path, errno);
    while (::flock(file_.get(), LOCK_EX) != 0) {
      if (errno != EINTR) throw_file_error("lock", path, errno);
    }
  }

 private:
  Descriptor file_;  // closing gives the lock back
};

class FileStore final : public Store {
 public:
  explicit FileStore(fs::path directory) : directory_(std::move(directory)) {
    std::error_code error;
    fs::create_directories(directory_, error);
    if (error) throw_file_error("create", directory_, error.value());
  }

  void set(const std::string& key, const Bytes& value) override {
    const fs::path target = directory_ / file_name(key);
    const fs::path draft = directory_ / draft_name();
    write_file(draft, value);
    if (std::rename(draft.c_str(), target.c_str()) != 0) throw_file_error("rename to", target, errno);
  }

  Bytes get(const std::string& key, std::chrono::milliseconds timeout) override {
    const Deadline deadline = Deadline::after(timeout);
    auto pause = std::chrono::microseconds(100);
    while (true) {
      const bool last = deadline.passed();
      if (auto value = read_file(directory_ / file_name(key))) return *std::move(value);
      if (last) throw_key_timeout(key, timeout);
      std::this_thread::sleep_for(pause);
      pause = std::min(pause * 2, std::chrono::microseconds(10'000));
    }
  }

  bool check(const std::string& key) override { return fs::exists(directory_ / file_name(key)); }

  std::int64_t add(const std::string& key, std::int64_t amount) override {
    const DirectoryLock lock(directory_ / ".lock");
    const std::int64_t sum =
        amount + read_counter(key, read_file(directory_ / file_name(key)).value_or(Bytes{}));
    set(key, write_counter(sum));
    return sum;
  }

 private:
  /// Random: containers may have the same host name and the same process ids.
  static std::string draft_name() { return ".draft-" + to_hex(random_token()); }

  static void write_file(const fs::path& path, const Bytes& value) {
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    file.write(reinterpret_cast<const char*>(value.data()), static_cast<std::streamsize>(value.size()));
    file.close();
    if (!file) throw_file_error("write", path, errno);
  }

  static std::optional<Bytes> read_file(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) {
      if (errno == ENOENT) return std::nullopt;
      throw_file_error("read", path, errno);
    }
    const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    const auto bytes = std::as_bytes(std::span(text));
    return Bytes(bytes.begin(), bytes.end());
  }

  fs::path directory_;
};

}  // namespace

std::shared_ptr<Store> make_file_store(const std::filesystem::path& directory) {
  return std::make_shared<FileStore>(directory);
}

}  // namespace ucxring
