#include "backend/options.hpp"

#include "backend/errors.hpp"

namespace ucxring {

OptionsUcxring::OptionsUcxring() : c10d::Backend::Options("ucxring") {
  config = translate_errors("", [] { return config_from_environment(); });
}

void OptionsUcxring::set(const std::string& name, const std::string& value) {
  translate_errors("", [&] { set_config(config, name, value); });
}

#ifdef C10D_BACKEND_HAS_RECONFIGURE
c10::intrusive_ptr<c10d::Backend::Options> OptionsUcxring::clone() const {
  return c10::make_intrusive<OptionsUcxring>(*this);
}
#endif

}  // namespace ucxring
