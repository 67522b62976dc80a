#include "bench/perf/exchange.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <utility>

namespace ucxring::perf {

Exchange::Exchange(std::shared_ptr<Store> store, Rank rank, int world_size, std::chrono::milliseconds limit)
    : store_(make_prefix_store("perf-", std::move(store))),
      rank_(rank),
      world_size_(world_size),
      limit_(limit) {}

std::vector<std::vector<double>> Exchange::gather(const std::vector<double>& own) {
  const auto key = [round = round_++](int rank) { return fmt::format("{}-{}", round, rank); };
  const auto bytes = std::as_bytes(std::span(own));
  store_->set(key(rank_.value), Store::Bytes(bytes.begin(), bytes.end()));
  std::vector<std::vector<double>> all;
  for (int rank = 0; rank < world_size_; ++rank) {
    const Store::Bytes value = store_->get(key(rank), limit_);
    auto& figures = all.emplace_back(value.size() / sizeof(double));
    if (!value.empty()) std::memcpy(figures.data(), value.data(), figures.size() * sizeof(double));
  }
  return all;
}

double Exchange::largest(double own) {
  double most = own;
  for (const auto& figures : gather({own})) most = std::max(most, figures.front());
  return most;
}

}  // namespace ucxring::perf
