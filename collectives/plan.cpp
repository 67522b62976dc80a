#include "collectives/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <optional>
#include <utility>

#include "collectives/slicing.hpp"
#include "collectives/tuning_report.hpp"
#include "transport/base/error.hpp"
#include "transport/base/log.hpp"

namespace ucxring {

namespace {

constexpr std::size_t kSliceAlignment = 64;

/// Where a chunk lies when input and output are the same memory; chunks whose places overlap
/// overwrite each other.
ChunkRef place_of(ChunkRef ref, Collective collective, Rank rank) {
  if (ref.space != Space::input) return ref;
  switch (collective) {
    case Collective::all_gather:
    case Collective::gather:
      return output(rank.value);
    case Collective::reduce_scatter:
    case Collective::scatter:
      return ref.chunk == rank.value ? output(0) : ref;
    case Collective::all_to_all:
      return ref;
    default:
      return output(ref.chunk);
  }
}

/// The kernels of `call`. Throws `Error` (unsupported) where it has no meaning.
Reduction reduction_of(const Fingerprint& call) {
  try {
    return find_reduction(call.type, call.op);
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("{}: {}", to_string(call.collective), error.status().message()));
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

/// Whether every move stays inside this host and needs nothing but the user's buffers.
bool is_immediate(const Plan& plan) {
  const bool near = std::none_of(plan.moves.list.begin(), plan.moves.list.end(), [](const Move& move) {
    return move.kind == Move::Kind::send || move.kind == Move::Kind::receive;
  });
  return near && plan.lanes == 1 && plan.scratch_bytes == 0 && plan.reduction.scale == nullptr;
}

/// Whether inputs and outputs of this host's ranks, if all are as large as this rank's, overflow the cache.
bool overflows_cache(const Plan& plan, const PlanEnvironment& environment) {
  const auto own = environment.hosts.at(static_cast<std::size_t>(environment.rank.value));
  const auto ranks = std::count(environment.hosts.begin(), environment.hosts.end(), own);
  return plan.input_bytes + plan.output_bytes > environment.cache_bytes / static_cast<std::size_t>(ranks);
}

/// Scratch chunks that are left after fusing.
std::vector<bool> used_scratch(const Plan& plan) {
  std::vector<bool> used(plan.schedule.scratch.size(), false);
  const auto use = [&](ChunkRef ref) {
    if (ref.space != Space::scratch) return;
    std::fill_n(used.begin() + ref.chunk, ref.chunks, true);
  };
  for (const Move& move : plan.moves.list) {
    use(move.source);
    use(move.target);
    const Step& step = plan.schedule.steps[move.step];
    const bool stepwise = move.kind != Move::Kind::fold && move.kind != Move::Kind::publish;
    if (stepwise && step.combine != Combine::copy) use(step.operand);
    for (const FoldOperand& operand : plan.moves.operands_of(move)) use(operand.chunk);
  }
  return used;
}

std::size_t largest_chunk(const Plan& plan) {
  std::size_t largest = 0;
  for (const Extent& extent : plan.input) largest = std::max(largest, extent.bytes);
  for (const Extent& extent : plan.output) largest = std::max(largest, extent.bytes);
  return largest;
}

/// Slices and window are the same on all ranks, whoever shares memory with whom. Where ranks know different
/// counts, slices cannot depend on them.
void cut_into_lanes(Plan& plan, const PlanEnvironment& environment) {
  const bool shares = any_share(environment.hosts);
  const Slicing slicing =
      plan.fingerprint.uneven
          ? slice_uneven_chunks(largest_chunk(plan), shares, environment.config)
          : slice_chunks(largest_chunk(plan), shares, environment.config, plan.schedule.widest);
  plan.slice_bytes = slicing.slice_bytes;
  plan.lanes = slicing.lanes;
  plan.window = slicing.window;
}

void place_scratch(Plan& plan) {
  const std::vector<bool> used = used_scratch(plan);
  std::size_t bundle = 0;  // where the last one begins
  for (std::size_t i = 0; i < used.size(); ++i) {
    const auto [like, place] = plan.schedule.scratch[i];
    const auto& map = like.space == Space::input ? plan.input : plan.output;
    const std::size_t bytes = map.at(static_cast<std::size_t>(like.chunk)).bytes;
    if (place == 0) bundle = plan.scratch_bytes;
    plan.scratch.push_back({bundle, bytes, static_cast<std::size_t>(place)});
    if (!used[i]) continue;
    plan.scratch_bytes = bundle + (static_cast<std::size_t>(place) + 1) * std::min(bytes, plan.slice_bytes);
    plan.scratch_bytes = (plan.scratch_bytes + kSliceAlignment - 1) / kSliceAlignment * kSliceAlignment;
  }
}

/// The chunks of one buffer of an even operation: each as long as the count, or together.
ChunkMap even_chunks(const Plan& plan, int chunks) {
  const std::size_t count = plan.fingerprint.count;
  if (!has_chunk_per_rank(plan.fingerprint.collective)) return partition(count, chunks, plan.element_bytes);
  return partition_by_counts(std::vector<std::size_t>(static_cast<std::size_t>(chunks), count),
                             plan.element_bytes);
}

/// Fills the chunk maps.
void map_chunks(Plan& plan, const UnevenCounts& counts) {
  if (plan.fingerprint.uneven) {
    plan.input = partition_by_counts(counts.input, plan.element_bytes);
    plan.output = partition_by_counts(counts.output, plan.element_bytes);
  } else {
    plan.input = even_chunks(plan, plan.schedule.input_chunks);
    plan.output = even_chunks(plan, plan.schedule.output_chunks);
  }
  for (const Extent& extent : plan.input) plan.input_bytes += extent.bytes;
  for (const Extent& extent : plan.output) plan.output_bytes += extent.bytes;
}

std::size_t decisive_bytes(const Fingerprint& fingerprint, int world_size) {
  const std::size_t bytes = fingerprint.count * size_of(fingerprint.type);
  return has_chunk_per_rank(fingerprint.collective) ? bytes * static_cast<std::size_t>(world_size) : bytes;
}

}  // namespace

Plan make_plan(const Fingerprint& fingerprint, const PlanEnvironment& environment, const Algorithm* algorithm,
               const UnevenCounts& counts) {
  const int world_size = environment.world_size;
  const GroupShape shape{environment.rank, world_size, Rank(fingerprint.root), environment.hosts};
  Plan plan;
  plan.fingerprint = fingerprint;
  plan.stamp = fingerprint.pack();
  plan.element_bytes = size_of(fingerprint.type);
  plan.element_shift = std::countr_zero(plan.element_bytes);
  if (reduces(fingerprint.collective)) plan.reduction = reduction_of(fingerprint);
  plan.divisor = fingerprint.op == ReduceOp::average ? world_size : 1;
  plan.algorithm = algorithm == nullptr ? "local" : algorithm->name;
  plan.schedule = algorithm == nullptr ? local_schedule(fingerprint.collective) : algorithm->build(shape);
  plan.moves =
      make_moves(plan.schedule, {environment.shared, [&](ChunkRef a, ChunkRef b) {
                                   return place_of(a, fingerprint.collective, environment.rank)
                                       .overlaps(place_of(b, fingerprint.collective, environment.rank));
                                 }});
  map_chunks(plan, counts);
  cut_into_lanes(plan, environment);
  place_scratch(plan);
  plan.immediate = is_immediate(plan);
  plan.streams = overflows_cache(plan, environment);
  return plan;
}

PlanCache::PlanCache(PlanEnvironment environment)
    : environment_(std::move(environment)),
      tuner_(environment_.hosts, environment_.config, environment_.parameters),
      entries_(kCapacity) {
  if (!speaks()) return;
  for (const auto& line : describe_tuning(tuner_)) log::announce("TUNING", line);
}

/// Whether this rank prints how algorithms are chosen: one does for all.
bool PlanCache::speaks() const {
  return environment_.rank == Rank(0) && environment_.world_size > 1 && environment_.config.debugs("TUNING");
}

const Algorithm* PlanCache::choose(const Fingerprint& fingerprint, const UnevenCounts& counts) {
  if (environment_.world_size == 1) return nullptr;
  if (fingerprint.uneven) {
    // Where every rank knows all counts, one of its buffers has all chunks.
    const auto& all = counts.input.size() > counts.output.size() ? counts.input : counts.output;
    const std::size_t total = std::accumulate(all.begin(), all.end(), std::size_t{0});
    const bool known = fingerprint.count != 0;
    return &tuner_.choose_uneven(fingerprint.collective,
                                 known ? std::optional(total * size_of(fingerprint.type)) : std::nullopt);
  }
  const std::size_t bytes = decisive_bytes(fingerprint, environment_.world_size);
  if (speaks()) log::announce("TUNING", describe_choice(tuner_, fingerprint.collective, bytes));
  return &tuner_.choose(fingerprint.collective, bytes);
}

const std::shared_ptr<const Plan>& PlanCache::look_up(const Fingerprint& fingerprint,
                                                      const UnevenCounts& counts) {
  if (fingerprint.uneven) return look_up_uneven(fingerprint, counts);
  const Stamp stamp = fingerprint.pack();
  const std::uint64_t mixed = (stamp ^ (stamp >> 29U)) * 0xbf58476d1ce4e5b9U;
  std::shared_ptr<const Plan>& entry = entries_[(mixed >> 32U) % kCapacity];
  // Not by the stamp, in which large roots are cut off.
  if (!entry || entry->fingerprint != fingerprint) {
    entry = std::make_shared<const Plan>(make_plan(fingerprint, environment_, choose(fingerprint, counts)));
  }
  newest_ = &entry;
  return entry;
}

const std::shared_ptr<const Plan>& PlanCache::look_up_uneven(const Fingerprint& fingerprint,
                                                             const UnevenCounts& counts) {
  if (uneven_.empty()) uneven_.resize(kUnevenCapacity);
  const Stamp stamp = fingerprint.pack();
  const std::uint64_t mixed = stamp ^ counts_stamp(counts.input) ^ (counts_stamp(counts.output) << 1U);
  UnevenEntry& entry = uneven_[(mixed ^ (mixed >> 32U)) % kUnevenCapacity];
  const auto same = [](std::span<const std::size_t> one, const std::vector<std::size_t>& other) {
    return std::equal(one.begin(), one.end(), other.begin(), other.end());
  };
  if (!entry.plan || entry.plan->fingerprint != fingerprint || !same(counts.input, entry.input) ||
      !same(counts.output, entry.output)) {
    entry = {{counts.input.begin(), counts.input.end()},
             {counts.output.begin(), counts.output.end()},
             std::make_shared<const Plan>(
                 make_plan(fingerprint, environment_, choose(fingerprint, counts), counts))};
  }
  return entry.plan;
}

}  // namespace ucxring
