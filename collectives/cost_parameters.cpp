#include "collectives/cost_parameters.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <charconv>

#include "transport/base/error.hpp"

namespace ucxring {

double LinkParameters::bytes_per_second() const noexcept {
  std::int64_t slowest = 0;
  for (const std::int64_t rate : {send_bytes_per_us, receive_bytes_per_us, wire_bytes_per_us}) {
    if (rate > 0 && (slowest == 0 || rate < slowest)) slowest = rate;
  }
  return static_cast<double>(slowest) * 1e6;
}
namespace {

constexpr std::string_view kFormat = "costs1";  // to be changed together with the list of fields

/// Every field, in the order of the text.
template <typename Parameters>
auto fields(Parameters& p) {
  return std::array{&p.near.latency_ns,           &p.near.overhead_ns,       &p.near.send_bytes_per_us,
                    &p.near.receive_bytes_per_us, &p.near.wire_bytes_per_us, &p.far.latency_ns,
                    &p.far.overhead_ns,           &p.far.send_bytes_per_us,  &p.far.receive_bytes_per_us,
                    &p.far.wire_bytes_per_us,     &p.reduce_bytes_per_us,    &p.cores_per_host};
}

[[noreturn]] void refuse(std::string_view text) {
  throw Error(
      ErrorCode::mismatch,
      fmt::format("rank 0 published \"{}\", which are no parameters of this version's cost model: run "
                  "the same version of ucxring on all ranks",
                  text));
}

}  // namespace

std::string CostParameters::encode() const {
  std::string text(kFormat);
  for (const std::int64_t* field : fields(*this)) text += fmt::format(" {}", *field);
  return text;
}

CostParameters CostParameters::decode(std::string_view text) {
  CostParameters parameters;
  if (!text.starts_with(kFormat)) refuse(text);
  const char* at = text.data() + kFormat.size();
  const char* const end = text.data() + text.size();
  for (std::int64_t* field : fields(parameters)) {
    if (at == end || *at != ' ') refuse(text);
    const auto [rest, error] = std::from_chars(at + 1, end, *field);
    if (error != std::errc() || *field < 0) refuse(text);
    at = rest;
  }
  if (at != end) refuse(text);
  return parameters;
}

}  // namespace ucxring
