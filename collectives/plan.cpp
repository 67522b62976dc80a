#include "collectives/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace ucxring {

namespace {

constexpr std::size_t kSliceAlignment = 64;
constexpr std::size_t kDefaultSlice = std::size_t{256} << 10U;
constexpr int kDefaultWindow = 4;

/// Where a chunk lies when input and output are the same memory; chunks with equal places overwrite each
/// other.
struct Place {
  Space space;
  int chunk;
  friend bool operator==(const Place&, const Place&) = default;
};

Place place_of(ChunkRef ref, Collective collective, Rank rank) {
  if (ref.space != Space::input) return {ref.space, ref.chunk};
  switch (collective) {
    case Collective::all_gather:
      return {Space::output, rank.value};
    case Collective::reduce_scatter:
      return ref.chunk == rank.value ? Place{Space::output, 0} : Place{Space::input, ref.chunk};
    default:
      return {Space::output, ref.chunk};
  }
}

/// What a schedule for a group of one does: the input is the result.
Schedule local_schedule(Collective collective) {
  const int chunks = collective == Collective::barrier ? 0 : 1;
  ScheduleBuilder builder(chunks, chunks);
  if (chunks > 0) {
    builder.copy(input(0), output(0));
    if (reduces(collective)) builder.completes();
  }
  return std::move(builder).build();
}

void number_messages(Plan& plan) {
  std::unordered_map<int, std::uint32_t> sent;
  std::unordered_map<int, std::uint32_t> received;
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    const Step& step = plan.schedule.steps[i];
    if (step.action == Action::send) {
      plan.steps[i].ordinal = sent[step.peer]++;
      plan.steps[i].send_slot = plan.sends++;
    } else if (step.action == Action::receive) {
      plan.steps[i].ordinal = received[step.peer]++;
    }
  }
}

/// For each writing step, the earlier sends of the same place since that place was last written.
void find_hazards(Plan& plan, Rank rank) {
  struct Pending {
    Place place;
    std::uint32_t slot;
  };
  std::vector<Pending> pending;
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    const Step& step = plan.schedule.steps[i];
    if (step.action == Action::send) {
      pending.push_back({place_of(step.source, plan.fingerprint.collective, rank), plan.steps[i].send_slot});
      continue;
    }
    const Place target = place_of(step.target, plan.fingerprint.collective, rank);
    plan.steps[i].first_hazard = static_cast<std::uint32_t>(plan.hazards.size());
    std::erase_if(pending, [&](const Pending& send) {
      if (send.place != target) return false;
      plan.hazards.push_back(send.slot);
      return true;
    });
    plan.steps[i].hazard_count = static_cast<std::uint32_t>(plan.hazards.size()) - plan.steps[i].first_hazard;
  }
}

std::size_t largest_chunk(const Plan& plan) {
  std::size_t largest = 0;
  for (const Extent& extent : plan.input) largest = std::max(largest, extent.bytes);
  for (const Extent& extent : plan.output) largest = std::max(largest, extent.bytes);
  return largest;
}

void cut_into_lanes(Plan& plan, const Config& config) {
  const std::size_t chunk = largest_chunk(plan);
  const std::size_t wanted = config.slice_bytes != 0 ? config.slice_bytes : kDefaultSlice;
  const std::size_t rounded = (std::min(wanted, std::max<std::size_t>(chunk, 1)) + kSliceAlignment - 1) /
                              kSliceAlignment * kSliceAlignment;
  plan.slice_bytes = rounded;
  plan.lanes = std::max<std::uint64_t>(1, (chunk + rounded - 1) / rounded);
  const int window = config.lanes != 0 ? config.lanes : kDefaultWindow;
  plan.window = static_cast<int>(std::min<std::uint64_t>(plan.lanes, static_cast<std::uint64_t>(window)));
}

void place_scratch(Plan& plan) {
  for (const ChunkRef like : plan.schedule.scratch) {
    const auto& map = like.space == Space::input ? plan.input : plan.output;
    const std::size_t bytes = map.at(static_cast<std::size_t>(like.chunk)).bytes;
    plan.scratch.push_back({plan.scratch_bytes, bytes});
    plan.scratch_bytes += std::min(bytes, plan.slice_bytes) + kSliceAlignment - 1;
    plan.scratch_bytes = plan.scratch_bytes / kSliceAlignment * kSliceAlignment;
  }
}

/// Fills the chunk maps. all_gather and reduce_scatter cut their large side into one chunk a rank.
void map_chunks(Plan& plan, int world_size) {
  const std::size_t count = plan.fingerprint.count;
  const std::vector<std::size_t> per_rank(static_cast<std::size_t>(world_size), count);
  const auto whole = partition(count, 1, plan.element_bytes);
  switch (plan.fingerprint.collective) {
    case Collective::all_gather:
      plan.input = whole;
      plan.output = partition_by_counts(per_rank, plan.element_bytes);
      break;
    case Collective::reduce_scatter:
      plan.input = partition_by_counts(per_rank, plan.element_bytes);
      plan.output = whole;
      break;
    case Collective::barrier:
      break;
    case Collective::broadcast:
    case Collective::all_reduce:
      plan.output = partition(count, plan.schedule.output_chunks, plan.element_bytes);
      plan.input = plan.output;
      break;
  }
  for (const Extent& extent : plan.input) plan.input_bytes += extent.bytes;
  for (const Extent& extent : plan.output) plan.output_bytes += extent.bytes;
}

std::size_t decisive_bytes(const Fingerprint& fingerprint, int world_size) {
  const std::size_t bytes = fingerprint.count * size_of(fingerprint.type);
  const bool per_rank = fingerprint.collective == Collective::all_gather ||
                        fingerprint.collective == Collective::reduce_scatter;
  return per_rank ? bytes * static_cast<std::size_t>(world_size) : bytes;
}

}  // namespace

Plan make_plan(const Fingerprint& fingerprint, Rank rank, int world_size, const Config& config) {
  Plan plan;
  plan.fingerprint = fingerprint;
  plan.element_bytes = size_of(fingerprint.type);
  if (reduces(fingerprint.collective)) plan.reduction = find_reduction(fingerprint.type, fingerprint.op);
  plan.divisor = fingerprint.op == ReduceOp::average ? world_size : 1;
  if (world_size == 1) {
    plan.algorithm = "local";
    plan.schedule = local_schedule(fingerprint.collective);
  } else {
    const Algorithm& algorithm = choose_algorithm(
        fingerprint.collective, decisive_bytes(fingerprint, world_size), world_size, config.algorithm);
    plan.algorithm = algorithm.name;
    plan.schedule = algorithm.build({rank, world_size, Rank(fingerprint.root)});
  }
  plan.steps.resize(plan.schedule.steps.size());
  map_chunks(plan, world_size);
  number_messages(plan);
  find_hazards(plan, rank);
  cut_into_lanes(plan, config);
  place_scratch(plan);
  return plan;
}

PlanCache::PlanCache(Rank rank, int world_size, Config config)
    : rank_(rank), world_size_(world_size), config_(std::move(config)), entries_(kCapacity) {}

std::shared_ptr<const Plan> PlanCache::get(const Fingerprint& fingerprint) {
  const Stamp stamp = fingerprint.pack();
  const std::uint64_t mixed = (stamp ^ (stamp >> 29U)) * 0xbf58476d1ce4e5b9U;
  Entry& entry = entries_[(mixed >> 32U) % kCapacity];
  if (!entry.plan || entry.stamp != stamp || entry.count != fingerprint.count) {
    entry = {stamp, fingerprint.count,
             std::make_shared<const Plan>(make_plan(fingerprint, rank_, world_size_, config_))};
  }
  return entry.plan;
}

}  // namespace ucxring
