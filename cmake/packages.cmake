# What `cpack` makes. -G DEB: the Debian packages minfer-core, minfer-plugin-cpu, minfer-plugin-cuda
# (where it was built), minfer-tools, minfer-dev; and what they hold beside programs: man pages,
# completion, copyright, changelog. -G External: the relocatable archive of scripts/bundle. docs/plugin-guide.md says how a third party ships a plugin beside them.

set(minfer_packages core plugin-cpu tools dev)
if(TARGET minfer_cuda)
  list(APPEND minfer_packages plugin-cuda)
endif()
set(minfer_doc_dir ${CMAKE_INSTALL_DATADIR}/doc)

# minfer_install_gz(FILE FOLDER NAME COMPONENT): installs FILE compressed, without a time stamp in it.
function(minfer_install_gz file folder name component)
  install(CODE "
    set(to \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${folder}\")
    file(MAKE_DIRECTORY \"\${to}\")
    execute_process(COMMAND gzip -9nc \"${file}\" OUTPUT_FILE \"\${to}/${name}.gz\"
                    COMMAND_ERROR_IS_FATAL ANY)" COMPONENT ${component})
endfunction()

configure_file(packaging/changelog.in ${CMAKE_CURRENT_BINARY_DIR}/changelog @ONLY)
foreach(component IN LISTS minfer_packages)
  set(package minfer-${component})
  install(FILES packaging/copyright DESTINATION ${minfer_doc_dir}/${package} COMPONENT ${component})
  minfer_install_gz(${CMAKE_CURRENT_BINARY_DIR}/changelog ${minfer_doc_dir}/${package} changelog
    ${component})
  if(EXISTS ${PROJECT_SOURCE_DIR}/packaging/${package}.lintian-overrides)
    install(FILES packaging/${package}.lintian-overrides
      DESTINATION ${CMAKE_INSTALL_DATADIR}/lintian/overrides RENAME ${package} COMPONENT ${component})
  endif()
endforeach()

install(FILES docs/operators.md docs/plugin-guide.md DESTINATION ${minfer_doc_dir}/minfer-dev
  COMPONENT dev)
install(DIRECTORY examples DESTINATION ${minfer_doc_dir}/minfer-dev COMPONENT dev)

# Completion is loaded by the command's name, so each tool has the file under its own.
file(GLOB tools RELATIVE ${PROJECT_SOURCE_DIR}/apps CONFIGURE_DEPENDS
  ${PROJECT_SOURCE_DIR}/apps/minfer-*)
file(READ packaging/completion.bash completion)
foreach(tool IN LISTS tools)
  if(NOT TARGET ${tool})
    continue()
  endif()
  set(component tools)
  if(tool STREQUAL minfer-conformance)
    set(component dev) # it comes with the SDK
  endif()
  file(CONFIGURE OUTPUT completions/${tool} CONTENT "@completion@\ncomplete -o default -F _minfer @tool@\n" @ONLY)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/completions/${tool}
    DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT ${component})
  if(EXISTS ${PROJECT_SOURCE_DIR}/docs/man/${tool}.1)
    minfer_install_gz(${PROJECT_SOURCE_DIR}/docs/man/${tool}.1 ${CMAKE_INSTALL_MANDIR}/man1 ${tool}.1
      ${component})
  endif()
endforeach()

set(CPACK_GENERATOR DEB External)
set(CPACK_EXTERNAL_PACKAGE_SCRIPT ${PROJECT_SOURCE_DIR}/cmake/archive.cmake)
set(CPACK_MINFER_BUILD_DIR ${CMAKE_BINARY_DIR}) # for that script
set(CPACK_COMPONENTS_ALL ${minfer_packages})
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_MAINTAINER "The minfer authors <minfer@example.org>")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_LIBRARY_OUTPUT_DIRECTORY})
configure_file(packaging/core/shlibs.in ${CMAKE_CURRENT_BINARY_DIR}/shlibs @ONLY)
set(CPACK_DEBIAN_CORE_PACKAGE_CONTROL_EXTRA
  ${CMAKE_CURRENT_BINARY_DIR}/shlibs ${PROJECT_SOURCE_DIR}/packaging/core/triggers)

# minfer_package(COMPONENT SECTION DEPENDS TEXT): one package's control fields; the first line of every
# description is the project's.
macro(minfer_package component section depends text)
  string(TOUPPER ${component} upper)
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME minfer-${component})
  set(CPACK_DEBIAN_${upper}_PACKAGE_SECTION ${section})
  set(CPACK_DEBIAN_${upper}_PACKAGE_DEPENDS "${depends}")
  set(CPACK_DEBIAN_${upper}_DESCRIPTION "${text}")
endmacro()
minfer_package(core libs ""
  "The engine without a backend: models, placement, scheduling. Backends are\npackages of their own; minfer-plugin-cpu is the one for every machine.")
minfer_package(plugin-cpu libs ""
  "Kernels from the baseline to AVX-512 with VNNI, chosen at run time.\nWorks with any minfer-core of the same plugin ABI.")
minfer_package(plugin-cuda contrib/libs ""
  "Kernels for NVIDIA GPUs. Needs a driver to be of use, nothing to be installed.\nWorks with any minfer-core of the same plugin ABI.")
minfer_package(tools science "minfer-core (= ${PROJECT_VERSION})"
  "Programs that run, measure, compare, inspect and make models.")
set(CPACK_DEBIAN_TOOLS_PACKAGE_RECOMMENDS "minfer-plugin-cpu")
# No version: any minor of the plugin ABI works with any other.
set(CPACK_DEBIAN_PLUGIN-CPU_PACKAGE_ENHANCES "minfer-core")
set(CPACK_DEBIAN_PLUGIN-CUDA_PACKAGE_ENHANCES "minfer-core")
minfer_package(dev libdevel "minfer-core (= ${PROJECT_VERSION}), libexpected-dev"
  "Headers, CMake package and pkg-config files for programs on the engine and\nfor backends out of tree, and the tool that checks a backend.")
include(CPack)
