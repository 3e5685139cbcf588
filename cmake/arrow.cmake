# Arrow out of PyPI's wheel pyarrow, of which scripts/setup keeps libarrow and its headers. It holds Google's and Azure's clients; without it
# there is no module for gs:// and az://.
execute_process(COMMAND bash -c ". scripts/lib.sh && echo $arrow_home" WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}
                OUTPUT_VARIABLE arrow_home OUTPUT_STRIP_TRAILING_WHITESPACE)
file(GLOB arrow_library ${arrow_home}/pyarrow/libarrow.so.*)
if(arrow_library AND EXISTS ${arrow_home}/pyarrow/include/arrow/filesystem/azurefs.h)
  set(TRAINYARD_HAS_ARROW ON)
  add_library(arrow::arrow SHARED IMPORTED)
  set_target_properties(arrow::arrow PROPERTIES IMPORTED_LOCATION ${arrow_library})
  target_include_directories(arrow::arrow SYSTEM INTERFACE ${arrow_home}/pyarrow/include)
endif()
