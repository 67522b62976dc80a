# ucxring_python_package(TARGET): makes the extension module TARGET part of the Python package `ucxring`.
#
# In the build tree the package is importable from <build>/python (sources are links into the source tree, so an edit
# needs no build). Component `python` of the install holds what a wheel adds to the Python sources.
function(ucxring_python_package target)
  set(source_folder "${PROJECT_SOURCE_DIR}/backend/python")
  set(stage "${PROJECT_BINARY_DIR}/python")
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS RELATIVE "${source_folder}"
       "${source_folder}/ucxring/*.py" "${source_folder}/ucxring/*.pyi" "${source_folder}/ucxring/*.toml"
       "${source_folder}/ucxring/py.typed")
  foreach(source IN LISTS sources)
    get_filename_component(folder "${stage}/${source}" DIRECTORY)
    file(MAKE_DIRECTORY "${folder}")
    file(CREATE_LINK "${source_folder}/${source}" "${stage}/${source}" SYMBOLIC)
  endforeach()

  configure_file("${PROJECT_SOURCE_DIR}/cmake/build_info.py.in" "${stage}/ucxring/_build_info.py" @ONLY)
  execute_process(
    COMMAND "${UCXRING_PYTHON}" "${PROJECT_SOURCE_DIR}/cmake/stage_metadata.py" "${PROJECT_SOURCE_DIR}/pyproject.toml"
            "${stage}"
    COMMAND_ERROR_IS_FATAL ANY)
  set_property(DIRECTORY "${PROJECT_SOURCE_DIR}" APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
               "${PROJECT_SOURCE_DIR}/pyproject.toml")

  set(rpath "$ORIGIN/../torch/lib")
  if(UCXRING_BUILD_UCX)
    find_package(Ucx REQUIRED)
    list(APPEND rpath ${Ucx_INSTALL_RPATH})
  endif()
  set_target_properties(${target} PROPERTIES
    PREFIX "" OUTPUT_NAME _C SUFFIX ".${Python_SOABI}.so"
    LIBRARY_OUTPUT_DIRECTORY "${stage}/ucxring"
    INSTALL_RPATH "${rpath}")
  install(TARGETS ${target} LIBRARY DESTINATION ucxring COMPONENT python)
  install(FILES "${stage}/ucxring/_build_info.py" DESTINATION ucxring COMPONENT python)

  # A build target and not a test, because a build step owns the terminal and can show live progress.
  add_custom_target(demo
    COMMAND "${CMAKE_COMMAND}" -E env "PYTHONPATH=${stage}" "${UCXRING_PYTHON}" -m ucxring demo
    DEPENDS ${target} WORKING_DIRECTORY "${PROJECT_BINARY_DIR}" USES_TERMINAL VERBATIM
    COMMENT "Training the digits demo on two ranks")
endfunction()

# ucxring_python_program(TARGET): puts the program TARGET into the package's folder `bin`, in the build tree and in the
# wheel. It needs UCX and no torch.
function(ucxring_python_program target)
  find_package(Ucx REQUIRED)
  string(REPLACE "$ORIGIN/" "$ORIGIN/../" rpath "${Ucx_INSTALL_RPATH}")
  set_target_properties(${target} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/python/ucxring/bin"
    INSTALL_RPATH "${rpath}")
  install(TARGETS ${target} RUNTIME DESTINATION ucxring/bin COMPONENT python)
endfunction()
