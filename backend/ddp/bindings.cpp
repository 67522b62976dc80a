#include "backend/ddp/bindings.hpp"

#include <pybind11/stl.h>
#include <torch/csrc/Exceptions.h>

#include <torch/csrc/distributed/c10d/python_comm_hook.h>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <tuple>
#include <utility>
#include <vector>

#include "backend/ddp/agreement.hpp"
#include "backend/ddp/int8_blocks.hpp"
#include "backend/ddp/reducer.hpp"

namespace py = pybind11;

namespace ucxring::ddp {
namespace {

using Tensors = std::vector<at::Tensor>;
using Names = std::vector<std::string>;

/// A reference of our own: torch's holder type for groups is not ours.
c10::intrusive_ptr<c10d::ProcessGroup> own(c10d::ProcessGroup& group) {
  return c10::intrusive_ptr<c10d::ProcessGroup>::unsafe_reclaim_from_nonowning(&group);
}

std::shared_ptr<Reducer> make_reducer(Tensors parameters, Names names, const std::vector<bool>& sparse,
                                      c10d::ProcessGroup& group, std::size_t first_bucket_bytes,
                                      std::size_t bucket_bytes, bool find_unused_parameters,
                                      bool gradient_as_bucket_view, bool static_graph) {
  ReducerOptions options;
  options.limits = {first_bucket_bytes, bucket_bytes};
  options.find_unused_parameters = find_unused_parameters;
  options.gradient_as_bucket_view = gradient_as_bucket_view;
  options.static_graph = static_graph;
  return Reducer::create(std::move(parameters), std::move(names), sparse, own(group), options);
}

void register_python_hook(Reducer& reducer, py::object state, py::object hook, bool chains) {
  auto wrapped = std::make_unique<c10d::PythonCommHook>(std::move(state), std::move(hook));
  const py::gil_scoped_release no_gil;
  reducer.set_comm_hook(std::move(wrapped), chains);
}

void define_timings(py::module_& module) {
  py::class_<BucketTiming>(module, "BucketTiming")
      .def_readonly("bytes", &BucketTiming::bytes)
      .def_readonly("started", &BucketTiming::started)
      .def_readonly("finished", &BucketTiming::finished);
  py::class_<StepTiming>(module, "StepTiming")
      .def_readonly("step", &StepTiming::step)
      .def_readonly("forward", &StepTiming::forward)
      .def_readonly("backward", &StepTiming::backward)
      .def_readonly("computed", &StepTiming::computed)
      .def_readonly("finished", &StepTiming::finished)
      .def_readonly("buckets", &StepTiming::buckets)
      .def_property_readonly("ranks", [](const StepTiming& self) {
        std::vector<std::tuple<double, std::uint32_t, std::uint32_t>> rows;
        for (const RankNote& note : self.ranks)
          rows.emplace_back(note.seconds, note.batch_hash, note.parameter_hash);
        return rows;
      });
}

void define_int8_blocks(py::module_& module) {
  module.def("encode_int8_blocks", torch::wrap_pybind_function_no_gil(&encode_int8_blocks), py::arg("values"),
             py::arg("added"), py::arg("message"), py::arg("size"));
  module.def("average_int8_blocks", torch::wrap_pybind_function_no_gil(&average_int8_blocks),
             py::arg("message"), py::arg("factor"), py::arg("total"), py::arg("added"), py::arg("averages"),
             py::arg("size"));
  module.def("decode_int8_blocks", torch::wrap_pybind_function_no_gil(&decode_int8_blocks),
             py::arg("message"), py::arg("values"), py::arg("kept"), py::arg("size"));
}

}  // namespace

void define_ddp(py::module_& module) {
  define_timings(module);
  define_int8_blocks(module);
  // The last reference may go while hooks of another thread wait for the GIL.
  py::class_<Reducer, std::shared_ptr<Reducer>>(module, "Reducer")
      .def(py::init(torch::wrap_pybind_function_no_gil(&make_reducer)), py::arg("parameters"),
           py::arg("names"), py::arg("sparse"), py::arg("group"), py::kw_only(),
           py::arg("first_bucket_bytes"), py::arg("bucket_bytes"), py::arg("find_unused_parameters"),
           py::arg("gradient_as_bucket_view"), py::arg("static_graph"))
      .def("begin_forward", torch::wrap_pybind_function_no_gil(&Reducer::begin_forward),
           py::arg("synchronise"))
      .def("end_forward",
           torch::wrap_pybind_function_no_gil(
               [](Reducer& self, const Tensors& outputs, bool synchronise, std::int64_t samples) {
                 self.end_forward(outputs, synchronise, samples);
               }),
           py::arg("outputs"), py::arg("synchronise"), py::arg("samples"))
      .def("set_weight", torch::wrap_pybind_function_no_gil(&Reducer::set_weight), py::arg("weight"))
      .def("annotate", torch::wrap_pybind_function_no_gil(&Reducer::annotate), py::arg("batch_hash"),
           py::arg("parameter_hash"))
      .def("take_part_without_data", torch::wrap_pybind_function_no_gil(&Reducer::take_part_without_data))
      .def("take_timings", torch::wrap_pybind_function_no_gil(&Reducer::take_timings))
      .def("register_comm_hook", torch::wrap_pybind_function(&register_python_hook), py::arg("state"),
           py::arg("hook"), py::arg("chains"))
      .def_property_readonly("samples", torch::wrap_pybind_function_no_gil(&Reducer::samples))
      .def_property_readonly("steps", torch::wrap_pybind_function_no_gil(&Reducer::steps))
      .def_property_readonly("buckets", torch::wrap_pybind_function_no_gil(&Reducer::buckets))
      .def_property_readonly("bucket_bytes", torch::wrap_pybind_function_no_gil(&Reducer::bucket_bytes));
  module.def("check_same_structure",
             torch::wrap_pybind_function_no_gil(
                 [](c10d::ProcessGroup& group, const Tensors& parameters, const Names& names) {
                   check_same_structure(group, parameters, names);
                 }),
             py::arg("group"), py::arg("parameters"), py::arg("names"));
  module.def("broadcast_values",
             torch::wrap_pybind_function_no_gil([](c10d::ProcessGroup& group, const Tensors& tensors,
                                                   int root) { broadcast_values(group, tensors, root); }),
             py::arg("group"), py::arg("tensors"), py::arg("root"));
}

}  // namespace ucxring::ddp
