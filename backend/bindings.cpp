// The extension module ucxring._C.
#include <fmt/format.h>
#include <pybind11/chrono.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <utility>
#include <vector>

#include "backend/ddp/bindings.hpp"
#include "backend/interrupt.hpp"
#include "backend/live_groups.hpp"
#include "backend/options.hpp"
#include "backend/process_group.hpp"
#include "backend/registered_tensor.hpp"
#include "collectives/engine.hpp"
#include "transport/base/parse.hpp"

namespace py = pybind11;

namespace ucxring {
namespace {

/// Owner of a group for Python: dropping the last reference may wait for threads that need the GIL, so it is
/// released.
template <typename T>
class NoGilPtr {
 public:
  NoGilPtr() = default;
  NoGilPtr(const NoGilPtr&) = default;
  NoGilPtr(NoGilPtr&&) noexcept = default;
  NoGilPtr& operator=(const NoGilPtr&) = default;
  NoGilPtr& operator=(NoGilPtr&&) noexcept = default;
  NoGilPtr(c10::intrusive_ptr<T> pointer) : pointer_(std::move(pointer)) {}  // NOLINT: as pybind11 needs it
  explicit NoGilPtr(T* pointer) : pointer_(c10::intrusive_ptr<T>::unsafe_steal_from_new(pointer)) {}
  ~NoGilPtr() {
    if (!pointer_) return;
    if (PyGILState_Check() != 0) {
      const py::gil_scoped_release no_gil;
      pointer_.reset();
    } else {
      pointer_.reset();
    }
  }

  T& operator*() const noexcept { return *pointer_; }
  T* operator->() const noexcept { return pointer_.get(); }
  [[nodiscard]] T* get() const noexcept { return pointer_.get(); }
  void reset() noexcept { pointer_.reset(); }
  explicit operator bool() const noexcept { return pointer_ ? true : false; }

 private:
  c10::intrusive_ptr<T> pointer_;
};

}  // namespace
}  // namespace ucxring

PYBIND11_DECLARE_HOLDER_TYPE(T, ucxring::NoGilPtr<T>, true)

namespace ucxring {
namespace {

using Group = ProcessGroupUcxring;
using OptionsPtr = c10::intrusive_ptr<OptionsUcxring>;

c10::intrusive_ptr<Group> create_group(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                       OptionsPtr options) {
  auto group = c10::make_intrusive<Group>(store, rank, size, std::move(options), &check_python_interrupt);
  remember_group(group);
  return group;
}

OptionsPtr copy_options(const OptionsUcxring& options) {
  return c10::make_intrusive<OptionsUcxring>(options);
}

/// Rows of the settings table: name, type, default, allowed, help.
std::vector<std::vector<std::string>> settings_table() {
  std::vector<std::vector<std::string>> rows;
  for (const Setting& row : settings()) {
    rows.push_back({std::string(row.name), std::string(row.type), std::string(row.default_value),
                    std::string(row.allowed), std::string(row.help)});
  }
  return rows;
}

/// A setting as Python sees it: bool, int or str.
py::object to_python(const Setting& setting, const Config& config) {
  const std::string text = setting.show(config);
  if (setting.type == "bool") return py::bool_(parse_bool(text).value());
  if (setting.type == "integer" || setting.type == "microseconds")
    return py::int_(parse_integer(text).value());
  if (setting.type == "bytes") return py::int_(parse_bytes(text).value());
  return py::str(text);
}

/// The text of a value that Python assigns to a setting.
std::string to_text(const std::string& name, const py::handle& value) {
  if (py::isinstance<py::bool_>(value)) return value.cast<bool>() ? "1" : "0";
  if (py::isinstance<py::int_>(value) || py::isinstance<py::str>(value)) return py::str(value);
  throw py::type_error(
      fmt::format("ucxring [invalid_argument] ucxring.Options.{} takes bool, int or str, not {}", name,
                  std::string(py::str(py::type::of(value).attr("__name__")))));
}

void set_timeout(OptionsUcxring& options, std::chrono::milliseconds timeout) {
  if (timeout.count() <= 0) {
    throw py::value_error(fmt::format(
        "ucxring [invalid_argument] ucxring.Options.timeout is {} ms; it must be positive", timeout.count()));
  }
  options.timeout = timeout;
  options.has_timeout = true;
}

OptionsPtr make_options(const std::optional<std::chrono::milliseconds>& timeout, const py::kwargs& chosen) {
  auto options = c10::make_intrusive<OptionsUcxring>();
  if (timeout) set_timeout(*options, *timeout);
  for (const auto& [key, value] : chosen) {
    const auto name = key.cast<std::string>();
    options->set(name, to_text(name, value));
  }
  return options;
}

void define_settings(py::class_<OptionsUcxring, c10d::Backend::Options, OptionsPtr>& options) {
  for (const Setting& setting : settings()) {
    const std::string name = to_lower(setting.name);
    options.def_property(
        name.c_str(), [&setting](const OptionsUcxring& self) { return to_python(setting, self.config); },
        torch::wrap_pybind_function(
            [name](OptionsUcxring& self, const py::object& value) { self.set(name, to_text(name, value)); }),
        std::string(setting.help).c_str());
  }
}

void define_options(py::module_& module) {
  py::class_<OptionsUcxring, c10d::Backend::Options, OptionsPtr> options(module, "Options");
  options
      .def(py::init(torch::wrap_pybind_function(&make_options)), py::kw_only(),
           py::arg("timeout") = py::none())
      .def_property(
          "timeout", [](const OptionsUcxring& self) { return self.timeout; }, &set_timeout)
      .def_readonly("has_timeout", &OptionsUcxring::has_timeout)
      .def_readwrite("group_name", &OptionsUcxring::group_name)
      .def_readwrite("global_ranks_in_group", &OptionsUcxring::global_ranks_in_group)
      .def("copy", &copy_options)
      .def("__copy__", &copy_options)
      .def("__deepcopy__", [](const OptionsUcxring& self, const py::object&) { return copy_options(self); });
  define_settings(options);
}

void define_group(py::module_& module) {
  py::class_<Group, c10d::Backend, NoGilPtr<Group>>(module, "ProcessGroupUcxring")
      .def(py::init(torch::wrap_pybind_function_no_gil(&create_group)), py::arg("store"), py::arg("rank"),
           py::arg("size"), py::arg("options"))
      .def_property_readonly("options", &Group::options)
      .def_property_readonly("transport", &Group::transport_name)
      .def_property_readonly("link_bytes_per_second", &Group::link_bytes_per_second)
      .def("get_error", torch::wrap_pybind_function_no_gil(&Group::getError))
      // What torch calls on ranks that are in no part when a group is split: nothing to do here.
      .def(
          "perform_nocolor_split", [](const Group&, const py::object&) {}, py::arg("device"))
      .def("_set_default_timeout", torch::wrap_pybind_function_no_gil(&Group::setTimeout),
           py::arg("timeout"));
}

}  // namespace
}  // namespace ucxring

PYBIND11_MODULE(_C, module) {
  module.doc() = "ucxring's C++ side.";
  // The base classes are known to pybind11 only once torch has defined them.
  py::module_::import("torch._C._distributed_c10d");
  ucxring::define_options(module);
  ucxring::define_group(module);
  ucxring::ddp::define_ddp(module);
  module.def("empty", torch::wrap_pybind_function(&ucxring::empty_registered), py::arg("size"),
             py::arg("dtype"));
  module.def("settings", &ucxring::settings_table);
  module.def("shut_down_all_groups", torch::wrap_pybind_function_no_gil([] {
               ucxring::shut_down_all_groups(&ucxring::is_unlocked_python_thread);
             }));
  ucxring::Engine::set_interrupt_check(&ucxring::check_python_interrupt);
}
