// Two processes over UCX: latency of an exchange and bandwidth of slices, both directions at once.
//
//   bench_ucx latency|bandwidth [--slice BYTES] [--window N] [--total BYTES] [--sink] [--wait
//   spin|yield|sleep]
//             [--load N] [--repeat N]
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "transport/base/config.hpp"
#include "transport/base/error.hpp"
#include "transport/ucx/ucx.hpp"

namespace {

using namespace ucxring;
using Clock = std::chrono::steady_clock;

struct Options {
  std::string mode = "latency";
  std::size_t slice = std::size_t{256} << 10;
  std::size_t window = 8;
  std::size_t total = std::size_t{32} << 20;
  bool sink = false;
  std::string wait = "spin";
  int load = 0;
  int repeat = 15;
};

Options parse(int argc, char** argv) {
  Options options;
  if (argc > 1) options.mode = argv[1];
  for (int i = 2; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--sink") {
      options.sink = true;
      continue;
    }
    if (++i == argc) throw Error(ErrorCode::invalid_argument, name + " needs a value");
    const std::string value = argv[i];
    if (name == "--slice") options.slice = std::stoul(value);
    if (name == "--window") options.window = std::stoul(value);
    if (name == "--total") options.total = std::stoul(value);
    if (name == "--wait") options.wait = value;
    if (name == "--load") options.load = std::stoi(value);
    if (name == "--repeat") options.repeat = std::stoi(value);
  }
  return options;
}

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

/// One of the two ranks.
class Side {
 public:
  Side(const Options& options, Rank rank, const std::filesystem::path& directory)
      : options_(options),
        context_(ucx::make_context(config_from_environment(), "localhost")),
        transport_(ucx::create(context_, make_file_store(directory), rank, 2, std::chrono::seconds(20))),
        endpoint_(transport_->endpoint(Rank(1 - rank.value))),
        rank_(rank) {
    transport_->set_listener(nullptr);
  }

  void latency() {
    std::vector<std::byte> out(std::size_t{64} << 10);
    std::vector<std::byte> in(out.size());
    for (std::size_t bytes = 4; bytes <= out.size(); bytes *= 4) {
      std::vector<double> times;
      for (int i = 0; i < 200 * options_.repeat; ++i) times.push_back(exchange(out, in, bytes));
      if (rank_ == Rank(0)) fmt::print("{:>8} B  median {:8.2f} us\n", bytes, median(times) * 1e6);
    }
  }

  void bandwidth() {
    std::vector<float> out(options_.total / sizeof(float), 1.0F);
    std::vector<float> in(out.size(), 0.0F);
    stream(out, in);
    std::vector<double> rates;
    const double cpu = cpu_seconds();
    for (int i = 0; i < options_.repeat; ++i) rates.push_back(stream(out, in));
    const double bytes = static_cast<double>(options_.total) * options_.repeat;
    if (rank_ == Rank(0)) {
      fmt::print(
          "slice {:>4} KiB window {:>2} {:4} {:5} load {}: {:5.2f} GB/s each way (best {:5.2f}), "
          "{:5.2f} ns CPU per byte\n",
          options_.slice >> 10, options_.window, options_.sink ? "sink" : "into", options_.wait,
          options_.load, median(rates) / 1e9, *std::max_element(rates.begin(), rates.end()) / 1e9,
          (cpu_seconds() - cpu) / bytes * 1e9);
    }
  }

 private:
  struct Slice {
    Completion send;
    Completion receive;
    float* target = nullptr;
  };

  static void add(void* context, std::size_t offset, std::span<const std::byte> bytes) {
    auto* target = static_cast<float*>(context) + offset / sizeof(float);
    const auto* source = reinterpret_cast<const float*>(bytes.data());
    for (std::size_t i = 0; i < bytes.size() / sizeof(float); ++i) target[i] += source[i];
  }

  double exchange(const std::vector<std::byte>& out, std::vector<std::byte>& in, std::size_t bytes) {
    const auto begin = Clock::now();
    Completion sent;
    Completion received;
    const Tag tag = Tag::make(++sequence_, 0, 0);
    endpoint_.receive_into({in.data(), bytes}, tag, 0, received).throw_if_error();
    endpoint_.send({out.data(), bytes}, tag, 0, sent).throw_if_error();
    while (!sent.finished() || !received.finished()) wait();
    sent.status.throw_if_error();
    received.status.throw_if_error();
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }

  double stream(const std::vector<float>& out, std::vector<float>& in) {
    const auto begin = Clock::now();
    const std::size_t slices = options_.total / options_.slice;
    std::vector<Slice> window(options_.window);
    std::size_t posted = 0;
    std::size_t finished = 0;
    ++sequence_;
    while (finished < slices) {
      bool moved = false;
      for (; posted < slices && posted < finished + options_.window; ++posted) post(window, posted, out, in);
      for (; finished < posted && is_done(window[finished % options_.window]); ++finished) moved = true;
      if (!moved) wait();
    }
    return static_cast<double>(options_.total) / std::chrono::duration<double>(Clock::now() - begin).count();
  }

  void post(std::vector<Slice>& window, std::size_t index, const std::vector<float>& out,
            std::vector<float>& in) {
    Slice& slice = window[index % options_.window];
    slice = Slice{};
    const Tag tag = Tag::make(sequence_, 0, index);
    const std::size_t first = index * options_.slice / sizeof(float);
    auto* target = reinterpret_cast<std::byte*>(in.data() + first);
    if (options_.sink) {
      endpoint_.receive_apply({&Side::add, target}, options_.slice, tag, 0, slice.receive).throw_if_error();
    } else {
      endpoint_.receive_into({target, options_.slice}, tag, 0, slice.receive).throw_if_error();
    }
    endpoint_
        .send({reinterpret_cast<const std::byte*>(out.data() + first), options_.slice}, tag, 0, slice.send)
        .throw_if_error();
  }

  static bool is_done(const Slice& slice) {
    slice.send.status.throw_if_error();
    slice.receive.status.throw_if_error();
    return slice.send.finished() && slice.receive.finished();
  }

  void wait() {
    if (context_->progress()) return;
    if (options_.wait == "yield") sched_yield();
    if (options_.wait != "sleep" || !context_->arm()) return;
    pollfd event{context_->event_fd(), POLLIN, 0};
    poll(&event, 1, 1000);
  }

  Options options_;
  std::shared_ptr<Context> context_;
  std::unique_ptr<Transport> transport_;
  Endpoint& endpoint_;
  Rank rank_;
  std::uint64_t sequence_ = 0;
};

void run(const Options& options, Rank rank, const std::filesystem::path& directory) {
  Side side(options, rank, directory);
  if (options.mode == "latency") {
    side.latency();
  } else {
    side.bandwidth();
  }
}

}  // namespace

int main(int argc, char** argv) try {
  const Options options = parse(argc, argv);
  std::string directory = (std::filesystem::temp_directory_path() / "bench_ucx.XXXXXX").string();
  if (mkdtemp(directory.data()) == nullptr) throw Error(ErrorCode::transport, "cannot make " + directory);
  std::vector<pid_t> busy;
  for (int i = 0; i < options.load; ++i) {
    const pid_t pid = fork();
    while (pid == 0) asm volatile("");
    busy.push_back(pid);
  }
  const pid_t child = fork();
  run(options, Rank(child == 0 ? 1 : 0), directory);
  if (child == 0) return 0;
  int status = 0;
  waitpid(child, &status, 0);
  for (const pid_t pid : busy) kill(pid, SIGKILL);
  std::filesystem::remove_all(directory);
  return status == 0 ? 0 : 1;
} catch (const std::exception& error) {
  fmt::print(stderr, "bench_ucx: {}\n", error.what());
  return 1;
}
