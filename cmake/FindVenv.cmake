# The Python that the build, the tests and the Python package use, in this order: UCXRING_PYTHON, the interpreter a
# wheel builder passes as Python_EXECUTABLE, the virtual environment that ./install-dependencies.sh makes, python3.
#
# Cache variable  UCXRING_PYTHON      path of the interpreter
# Cache variable  UCXRING_VENV        name of the virtual environment in the source tree (".venv")
# Sets            Venv_SITE_PACKAGES  its folder of installed packages
set(UCXRING_VENV ".venv" CACHE STRING "Virtual environment in the source tree to take Python from")

if(NOT UCXRING_PYTHON)
  if(Python_EXECUTABLE)
    set(venv_python "${Python_EXECUTABLE}")
  elseif(EXISTS "${CMAKE_CURRENT_LIST_DIR}/../${UCXRING_VENV}/bin/python")
    get_filename_component(venv_folder "${CMAKE_CURRENT_LIST_DIR}/../${UCXRING_VENV}/bin" ABSOLUTE)
    set(venv_python "${venv_folder}/python")
  else()
    find_program(venv_python_program NAMES python3 NO_CACHE REQUIRED)
    set(venv_python "${venv_python_program}")
  endif()
  set(UCXRING_PYTHON "${venv_python}" CACHE FILEPATH "Python interpreter to build for and to test with" FORCE)
endif()

execute_process(
  COMMAND "${UCXRING_PYTHON}" -c "import sysconfig; print(sysconfig.get_path('platlib'))"
  OUTPUT_VARIABLE Venv_SITE_PACKAGES OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Venv REQUIRED_VARS UCXRING_PYTHON Venv_SITE_PACKAGES)
