#include "backend/ddp/bucket_plan.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace ucxring::ddp {
namespace {

struct Filling {
  std::vector<std::size_t> members;
  std::size_t bytes = 0;
  std::size_t last = 0;  // place of its last member in the order
};

}  // namespace

std::vector<std::vector<std::size_t>> plan_buckets(std::span<const GradientShape> shapes,
                                                   std::span<const std::size_t> order,
                                                   const BucketLimits& limits) {
  std::map<std::int64_t, Filling> open;
  std::vector<Filling> closed;
  std::size_t limit = limits.first;
  for (std::size_t place = 0; place < order.size(); ++place) {
    const GradientShape& shape = shapes[order[place]];
    if (shape.alone) {
      closed.push_back({{order[place]}, shape.bytes, place});
      continue;
    }
    Filling& bucket = open[shape.kind];
    bucket.members.push_back(order[place]);
    bucket.bytes += shape.bytes;
    bucket.last = place;
    if (bucket.bytes >= limit) {
      closed.push_back(std::exchange(bucket, {}));
      limit = limits.others;
    }
  }
  for (auto& [kind, bucket] : open) {
    if (!bucket.members.empty()) closed.push_back(std::move(bucket));
  }
  std::sort(closed.begin(), closed.end(), [](const Filling& a, const Filling& b) { return a.last < b.last; });
  std::vector<std::vector<std::size_t>> plan;
  plan.reserve(closed.size());
  for (Filling& bucket : closed) plan.push_back(std::move(bucket.members));
  return plan;
}

}  // namespace ucxring::ddp
