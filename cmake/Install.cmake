# Installs the C++ libraries and headers for find_package(ucxring).
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

set(config_folder "${CMAKE_INSTALL_LIBDIR}/cmake/ucxring")
set(installed_targets)
foreach(layer IN ITEMS transport collectives backend)
  if(TARGET ucxring_${layer})
    set_target_properties(ucxring_${layer} PROPERTIES EXPORT_NAME ${layer})
    list(APPEND installed_targets ucxring_${layer})
    install(DIRECTORY "${PROJECT_SOURCE_DIR}/${layer}" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/ucxring"
            COMPONENT development FILES_MATCHING PATTERN "*.hpp" PATTERN python EXCLUDE)
  endif()
endforeach()
install(TARGETS ${installed_targets} EXPORT ucxring-targets COMPONENT development
        ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
install(EXPORT ucxring-targets NAMESPACE ucxring:: DESTINATION "${config_folder}" COMPONENT development)

configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/ucxringConfig.cmake.in"
                              "${PROJECT_BINARY_DIR}/ucxringConfig.cmake" INSTALL_DESTINATION "${config_folder}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/ucxringConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/ucxringConfig.cmake" "${PROJECT_BINARY_DIR}/ucxringConfigVersion.cmake"
              cmake/FindUcx.cmake cmake/FindVenv.cmake cmake/Torch.cmake cmake/find_torch.py
        DESTINATION "${config_folder}" COMPONENT development)
