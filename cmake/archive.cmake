# The package script of `cpack -G External`: the relocatable archive, made by scripts/bundle.
set(archive ${CPACK_TOPLEVEL_DIRECTORY}/minfer-${CPACK_PACKAGE_VERSION}-${CMAKE_HOST_SYSTEM_PROCESSOR}.tar.xz)
execute_process(COMMAND ${CMAKE_CURRENT_LIST_DIR}/../scripts/bundle
  --build ${CPACK_MINFER_BUILD_DIR} --out ${archive} COMMAND_ERROR_IS_FATAL ANY)
set(CPACK_EXTERNAL_BUILT_PACKAGES ${archive})
