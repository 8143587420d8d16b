# The SDK as it is installed: headers, the CMake package, pkg-config files, and everything under
# component `dev`. minfer::plugin_abi and minfer::core are exported apart, so that a plugin in C is
# built where the C++ library's dependencies are missing.

include(CMakePackageConfigHelpers)
set(minfer_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/minfer)
set(minfer_pc_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

install(DIRECTORY core/include/minfer DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT dev)
install(TARGETS minfer_plugin_abi EXPORT minfer-plugin-abi-targets)
install(TARGETS minfer_core EXPORT minfer-core-targets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT core NAMELINK_COMPONENT dev)
install(EXPORT minfer-plugin-abi-targets NAMESPACE minfer:: DESTINATION ${minfer_package_dir}
        COMPONENT dev)
install(EXPORT minfer-core-targets NAMESPACE minfer:: DESTINATION ${minfer_package_dir}
        COMPONENT dev)

configure_package_config_file(cmake/minfer-config.cmake.in
  ${CMAKE_CURRENT_BINARY_DIR}/minfer-config.cmake
  INSTALL_DESTINATION ${minfer_package_dir} PATH_VARS CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/minfer-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/minfer-config.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/minfer-config-version.cmake
        DESTINATION ${minfer_package_dir} COMPONENT dev)

# Found from where the .pc file lies, so that the tree may be moved.
file(RELATIVE_PATH minfer_prefix_from_pc ${CMAKE_INSTALL_PREFIX}/${minfer_pc_dir}
  ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" minfer_prefix_from_pc "${minfer_prefix_from_pc}")
foreach(pc minfer-core minfer-plugin-abi)
  configure_file(cmake/${pc}.pc.in ${CMAKE_CURRENT_BINARY_DIR}/${pc}.pc @ONLY)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/${pc}.pc DESTINATION ${minfer_pc_dir} COMPONENT dev)
endforeach()
