# Language level, warnings and sanitizers of all our targets.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
# -O1, since -O3 takes nearly twice as long to compile, and the heavy work is done inside LibTorch, OpenSSL and zlib.
set(CMAKE_CXX_FLAGS_RELEASE "-O1 -DNDEBUG")
# -g1 in sanitizer builds: stack traces have line numbers, and the files are a third as large as with -g.
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O1 -g1")

# ccache makes a second clone build in seconds: paths are made relative to the source tree before they are hashed.
find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 CCACHE_PCH_EXTSUM=1
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime CCACHE_MAXSIZE=20G
      ${CCACHE_PROGRAM})
endif()

add_library(trainyard_compiler INTERFACE)
target_include_directories(trainyard_compiler INTERFACE ${CMAKE_SOURCE_DIR})
# Designated initializers may omit members that keep their defaults; g++ 12 warns of that.
target_compile_options(trainyard_compiler INTERFACE -Wall -Wextra -Wconversion -Werror -Wno-missing-field-initializers)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ 12 reports these falsely on std::string and std::vector under -O2 (GCC bugs 105329, 105762) and, worse, under -fsanitize.
  target_compile_options(trainyard_compiler INTERFACE -Wno-restrict -Wno-maybe-uninitialized -Wno-stringop-overflow
                                                      -Wno-array-bounds)
endif()
if(TRAINYARD_SANITIZE)
  target_compile_options(trainyard_compiler INTERFACE -fsanitize=${TRAINYARD_SANITIZE} -fno-omit-frame-pointer)
  target_link_options(trainyard_compiler INTERFACE -fsanitize=${TRAINYARD_SANITIZE})
  if(TRAINYARD_SANITIZE MATCHES "undefined")
    # Without these two checks, which would double the compile time: AddressSanitizer reports null pointers anyway, and x86-64 and arm64 read
    # from any address.
    target_compile_options(trainyard_compiler INTERFACE -fno-sanitize-recover=all -fno-sanitize=null,alignment)
  endif()
  if(TRAINYARD_SANITIZE MATCHES "address")
    # Checks of libstdc++ that no sanitizer makes: an empty optional, an index inside a vector's reserve, a null unique_ptr.
    target_compile_definitions(trainyard_compiler INTERFACE _GLIBCXX_ASSERTIONS)
  endif()
  if(TRAINYARD_SANITIZE MATCHES "thread")
    # tsan does not model fences; libstdc++'s use of them is sound.
    target_compile_options(trainyard_compiler INTERFACE -Wno-tsan)
  endif()
endif()
