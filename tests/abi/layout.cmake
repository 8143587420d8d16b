# Compares the layout that PROGRAM prints with SNAPSHOT. A frozen struct may gain lines at its end, and
# then a larger size; a line that changes or goes breaks plugins that exist.
execute_process(COMMAND ${PROGRAM} OUTPUT_VARIABLE now RESULT_VARIABLE status)
file(READ ${SNAPSHOT} expected)
if(NOT status EQUAL 0 OR NOT now STREQUAL expected)
  file(WRITE ${OUTPUT} "${now}")
  message(FATAL_ERROR "the layout of plugin_abi.h is not that of ${SNAPSHOT}; compare it with ${OUTPUT}. "
    "If fields were only appended, copy the latter over the former.")
endif()
