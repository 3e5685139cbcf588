# `cmake --install`: the programs, libtrainyard.so with its headers, and the package by which find_package(trainyard) finds them.
# The target `installed` builds all of it.
add_custom_target(installed)
foreach(target IN ITEMS trainyard trainyard-operator trainyard_worker trainyard-clean-up trainyard_store trainyard-rank trainyard_cuda trainyard_package)
  if(NOT TARGET ${target})
    continue()
  endif()
  add_dependencies(installed ${target})
  # LibTorch's folder stays in the path of those that link it: CMake replaces only what it added itself.
  set_target_properties(${target} PROPERTIES INSTALL_RPATH "$ORIGIN/../lib")
  install(TARGETS ${target} RUNTIME DESTINATION bin LIBRARY DESTINATION lib)
endforeach()

if(BUILD_WORKER)
  include(CMakePackageConfigHelpers)
  install(DIRECTORY ${CMAKE_SOURCE_DIR}/include/trainyard DESTINATION include FILES_MATCHING PATTERN "*.hpp")
  set(package_folder lib/cmake/trainyard)
  configure_package_config_file(cmake/trainyard-config.cmake.in ${CMAKE_BINARY_DIR}/package/trainyard-config.cmake
                                INSTALL_DESTINATION ${package_folder})
  write_basic_package_version_file(${CMAKE_BINARY_DIR}/package/trainyard-config-version.cmake COMPATIBILITY SameMinorVersion)
  install(FILES ${CMAKE_BINARY_DIR}/package/trainyard-config.cmake ${CMAKE_BINARY_DIR}/package/trainyard-config-version.cmake
          DESTINATION ${package_folder})
endif()
