#include "backend/options.hpp"

#include <utility>

#include "backend/errors.hpp"
#include "collectives/preference.hpp"

namespace ucxring {

OptionsUcxring::OptionsUcxring() : c10d::Backend::Options("ucxring") {
  config = translate_errors("", [] {
    Config found = config_from_environment();
    static_cast<void>(parse_preference(found.algorithm));
    return found;
  });
}

void OptionsUcxring::set(const std::string& name, const std::string& value) {
  translate_errors("", [&] {
    Config changed = config;
    set_config(changed, name, value);
    static_cast<void>(parse_preference(changed.algorithm));
    config = std::move(changed);
  });
}

#ifdef C10D_BACKEND_HAS_RECONFIGURE
c10::intrusive_ptr<c10d::Backend::Options> OptionsUcxring::clone() const {
  return c10::make_intrusive<OptionsUcxring>(*this);
}
#endif

}  // namespace ucxring
