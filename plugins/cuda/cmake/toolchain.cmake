# Finds nvcc, the host compiler it accepts and the architectures it can build.
#
# minfer_find_nvcc(OUT): path of nvcc, or empty. Looked for in CUDACXX, CUDA_HOME, CUDA_PATH, PATH and
# /usr/local/cuda.
# minfer_probe_ccbin(NVCC OUT): a host compiler to pin with -ccbin, or empty when nvcc's default works.
# minfer_probe_archs(NVCC CCBIN OUT): the architectures that nvcc accepts, e.g. "80;90a;120".
# minfer_gencode(ARCHS OUT): -gencode flags, native code for each and PTX for the newest.

function(minfer_find_nvcc out)
  if(DEFINED ENV{CUDACXX} AND EXISTS "$ENV{CUDACXX}")
    set(${out} "$ENV{CUDACXX}" PARENT_SCOPE)
    return()
  endif()
  find_program(MINFER_NVCC nvcc
    HINTS ENV CUDA_HOME ENV CUDA_PATH PATH_SUFFIXES bin
    PATHS /usr/local/cuda/bin)
  if(MINFER_NVCC)
    set(${out} "${MINFER_NVCC}" PARENT_SCOPE)
  else()
    set(${out} "" PARENT_SCOPE)
  endif()
endfunction()

# True when nvcc compiles an empty kernel with these flags.
function(minfer_nvcc_accepts nvcc flags out)
  set(dir "${CMAKE_BINARY_DIR}/cuda-probe")
  file(MAKE_DIRECTORY "${dir}")
  file(WRITE "${dir}/probe.cu" "#include <vector>\n__global__ void probe() {}\n")
  execute_process(COMMAND "${nvcc}" ${flags} -std=c++20 -c "${dir}/probe.cu" -o "${dir}/probe.o"
    RESULT_VARIABLE result OUTPUT_VARIABLE text ERROR_VARIABLE text)
  if(result EQUAL 0)
    set(${out} TRUE PARENT_SCOPE)
  else()
    set(${out} FALSE PARENT_SCOPE)
  endif()
endfunction()

function(minfer_probe_ccbin nvcc out)
  if(MINFER_CUDA_CCBIN)
    set(${out} "${MINFER_CUDA_CCBIN}" PARENT_SCOPE)
    return()
  endif()
  minfer_nvcc_accepts("${nvcc}" "" works)
  if(works)
    set(${out} "" PARENT_SCOPE)
    return()
  endif()
  foreach(version RANGE 15 9 -1)
    find_program(MINFER_GXX_${version} g++-${version})
    if(MINFER_GXX_${version})
      minfer_nvcc_accepts("${nvcc}" "-ccbin;${MINFER_GXX_${version}}" works)
      if(works)
        message(STATUS "CUDA: nvcc rejects the default host compiler, using g++-${version}")
        set(${out} "${MINFER_GXX_${version}}" PARENT_SCOPE)
        return()
      endif()
    endif()
  endforeach()
  message(FATAL_ERROR "CUDA: ${nvcc} accepts neither its default host compiler nor a g++-9 to "
    "g++-15; set MINFER_CUDA_CCBIN to one it supports")
endfunction()

function(minfer_probe_archs nvcc ccbin out)
  if(MINFER_CUDA_ARCHS)
    set(${out} "${MINFER_CUDA_ARCHS}" PARENT_SCOPE)
    return()
  endif()
  set(base "")
  if(ccbin)
    set(base "-ccbin;${ccbin}")
  endif()
  set(found "")
  # 90a, not 90: its matrix instructions exist on that architecture alone.
  foreach(arch 70 75 80 86 89 90a 100 103 120 121)
    minfer_nvcc_accepts("${nvcc}" "${base};-gencode=arch=compute_${arch},code=sm_${arch}" works)
    if(works)
      list(APPEND found ${arch})
    endif()
  endforeach()
  set(${out} "${found}" PARENT_SCOPE)
endfunction()

function(minfer_gencode archs out)
  set(flags "")
  set(newest "")
  foreach(arch IN LISTS archs)
    list(APPEND flags "-gencode=arch=compute_${arch},code=sm_${arch}")
    string(REGEX MATCH "^[0-9]+$" plain "${arch}")
    if(plain)
      set(newest ${arch})
    endif()
  endforeach()
  # PTX of an architecture with a suffix runs nowhere else, so it cannot serve newer devices.
  if(newest)
    list(APPEND flags "-gencode=arch=compute_${newest},code=compute_${newest}")
  endif()
  set(${out} "${flags}" PARENT_SCOPE)
endfunction()
