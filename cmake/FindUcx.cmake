# UCX, from where UCXRING_UCX says:
#   wheel     (default) the PyPI package libucx of the Python that FindVenv chooses
#   system    the compiler's own search paths (libucx-dev)
#   <folder>  an installation prefix
#
# UCX's own CMake package is not used: Debian's names folders that do not exist.
#
# Makes           ucx::ucp, ucx::ucs
# Sets            Ucx_VERSION, Ucx_LIBRARY_DIR
# Sets            Ucx_INSTALL_RPATH  what an installed library beside the package `libucx` needs to find it, or empty
set(UCXRING_UCX "wheel" CACHE STRING "Where UCX comes from: wheel, system or an installation prefix")

set(ucx_search NO_DEFAULT_PATH)
set(Ucx_INSTALL_RPATH "")
if(UCXRING_UCX STREQUAL "wheel")
  find_package(Venv REQUIRED)
  set(ucx_prefix "${Venv_SITE_PACKAGES}/libucx")
  set(Ucx_INSTALL_RPATH "$ORIGIN/../libucx/lib")
  set(ucx_remedy "install the Python package libucx or configure with -DUCXRING_UCX=system")
elseif(UCXRING_UCX STREQUAL "system")
  set(ucx_prefix "/usr")
  set(ucx_search "")
  set(ucx_remedy "install libucx-dev or configure with -DUCXRING_UCX=wheel")
else()
  set(ucx_prefix "${UCXRING_UCX}")
  set(Ucx_INSTALL_RPATH "${ucx_prefix}/lib")
  set(ucx_remedy "UCXRING_UCX must be wheel, system or a folder with include/ucp/api/ucp.h")
endif()

# A changed UCXRING_UCX must not meet the answers found for the former one.
if(NOT "${ucx_prefix}" STREQUAL "${UCXRING_UCX_FOUND_IN}")
  unset(Ucx_INCLUDE_DIR CACHE)
  unset(Ucx_UCP_LIBRARY CACHE)
  unset(Ucx_UCS_LIBRARY CACHE)
  set(UCXRING_UCX_FOUND_IN "${ucx_prefix}" CACHE INTERNAL "")
endif()
find_path(Ucx_INCLUDE_DIR ucp/api/ucp.h PATHS "${ucx_prefix}/include" ${ucx_search})
find_library(Ucx_UCP_LIBRARY ucp PATHS "${ucx_prefix}/lib" ${ucx_search})
find_library(Ucx_UCS_LIBRARY ucs PATHS "${ucx_prefix}/lib" ${ucx_search})
mark_as_advanced(Ucx_INCLUDE_DIR Ucx_UCP_LIBRARY Ucx_UCS_LIBRARY)

if(Ucx_INCLUDE_DIR)
  file(STRINGS "${Ucx_INCLUDE_DIR}/ucp/api/ucp_version.h" ucx_version_lines REGEX "define UCP_API_(MAJOR|MINOR)")
  string(REGEX REPLACE ".*MAJOR[ ]+([0-9]+).*MINOR[ ]+([0-9]+).*" "\\1.\\2" Ucx_VERSION "${ucx_version_lines}")
  get_filename_component(Ucx_LIBRARY_DIR "${Ucx_UCP_LIBRARY}" DIRECTORY)
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Ucx
  REQUIRED_VARS Ucx_UCP_LIBRARY Ucx_UCS_LIBRARY Ucx_INCLUDE_DIR VERSION_VAR Ucx_VERSION
  REASON_FAILURE_MESSAGE "${ucx_remedy}")

if(Ucx_FOUND AND NOT TARGET ucx::ucp)
  foreach(component IN ITEMS ucs ucp)
    string(TOUPPER ${component} component_upper)
    add_library(ucx::${component} SHARED IMPORTED GLOBAL)
    set_target_properties(ucx::${component} PROPERTIES
      IMPORTED_LOCATION "${Ucx_${component_upper}_LIBRARY}"
      INTERFACE_INCLUDE_DIRECTORIES "${Ucx_INCLUDE_DIR}")
  endforeach()
  set_property(TARGET ucx::ucp PROPERTY INTERFACE_LINK_LIBRARIES ucx::ucs)
endif()
