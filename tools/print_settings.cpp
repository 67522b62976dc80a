// Prints docs/configuration.md from the settings table; a lint test compares the two.
#include <fmt/core.h>

#include "transport/base/config.hpp"

namespace {

constexpr auto kIntroduction =
    "# Configuration\n\n"
    "Every setting is an environment variable `UCXRING_<NAME>` and a field of `ucxring.Options`. Unknown "
    "variables and\n"
    "values that are not allowed are errors that name the variable, its value and what is allowed. This page "
    "is\n"
    "generated from the table in the code (`ucxring_print_settings > docs/configuration.md`).\n\n"
    "| variable | type | default | allowed | what it does |\n"
    "|---|---|---|---|---|\n";

}  // namespace

int main() {
  fmt::print("{}", kIntroduction);
  for (const auto& setting : ucxring::settings()) {
    const auto shown =
        setting.default_value.empty() ? std::string("*empty*") : fmt::format("`{}`", setting.default_value);
    fmt::print("| `UCXRING_{}` | {} | {} | {} | {} |\n", setting.name, setting.type, shown, setting.allowed,
               setting.help);
  }
}
