// A setting takes any text or refuses it with invalid_argument; what it took, it shows in a form that it
// takes again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "transport/base/config.hpp"
#include "transport/base/error.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto settings = ucxring::settings();
  const auto& setting = settings[data[0] % settings.size()];
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  ucxring::Config config;
  try {
    setting.parse(config, text);
  } catch (const ucxring::Error& error) {
    if (error.code() != ucxring::ErrorCode::invalid_argument) std::abort();
    return 0;
  }
  const auto shown = setting.show(config);
  setting.parse(config, shown);
  if (setting.show(config) != shown) std::abort();
  return 0;
}
