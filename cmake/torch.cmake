# LibTorch from PyPI's wheel, as targets of our own: the wheel's CMake package would require a whole CUDA toolkit.
#   torch::cpu    libtorch_cpu and c10 with Gloo, which is all that a CPU rank loads
#   torch::cuda   also libtorch_cuda, NCCL and the CUDA runtime; only the shared NCCL module links it
if(NOT TRAINYARD_TORCH_HOME)
  execute_process(COMMAND bash -c ". scripts/lib.sh && echo $torch_home" WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}
                  OUTPUT_VARIABLE torch_home OUTPUT_STRIP_TRAILING_WHITESPACE)
else()
  set(torch_home ${TRAINYARD_TORCH_HOME})
endif()
file(GLOB torch_site_packages ${torch_home}/lib/python3*/site-packages)
if(NOT EXISTS "${torch_site_packages}/torch/lib/libtorch_cpu.so")
  message(FATAL_ERROR "LibTorch was not found under ${torch_home}. Run scripts/setup build, or configure with -DBUILD_WORKER=OFF.")
endif()
file(STRINGS ${torch_site_packages}/torch/version.py torch_version_line REGEX "^__version__")
string(REGEX REPLACE ".*'([0-9]+\\.[0-9]+).*" "\\1" trainyard_torch_version "${torch_version_line}")
set(torch_lib ${torch_site_packages}/torch/lib)
set(nvidia_home ${torch_site_packages}/nvidia)
set(TRAINYARD_TORCH_PYTHON ${torch_home}/bin/python CACHE INTERNAL "Python that imports torch, for the oracles")

add_library(torch_cpu INTERFACE)
add_library(torch::cpu ALIAS torch_cpu)
target_include_directories(torch_cpu SYSTEM INTERFACE ${torch_site_packages}/torch/include
                           ${torch_site_packages}/torch/include/torch/csrc/api/include)
# FMT_HEADER_ONLY: the wheel has headers of a newer fmt than Debian's library, and the compiler finds the wheel's first. Each version has its own
# inline namespace, so both can be in one program.
target_compile_definitions(torch_cpu INTERFACE USE_C10D_GLOO USE_DISTRIBUTED _GLIBCXX_USE_CXX11_ABI=1 FMT_HEADER_ONLY)
# The wheel ships no Gloo headers; Debian's match its ABI, and the symbols are inside libtorch_cpu.
# DT_RPATH, not RUNPATH: libtorch_cpu's own dependencies (libgomp, cudart) must be found from here too.
target_link_directories(torch_cpu INTERFACE ${torch_lib})
target_link_libraries(torch_cpu INTERFACE ${torch_lib}/libtorch_cpu.so ${torch_lib}/libc10.so)
target_link_options(torch_cpu INTERFACE -Wl,--disable-new-dtags,-rpath,${torch_lib} -Wl,--allow-shlib-undefined
                                        -Wl,-rpath-link,${nvidia_home}/cu13/lib)

# Headers of CUDA and NCCL come with the full set of wheels, which `scripts/setup test` installs.
set(TRAINYARD_HAS_CUDA_HEADERS OFF)
if(EXISTS ${nvidia_home}/nccl/include/nccl.h AND EXISTS ${nvidia_home}/cu13/include/cuda_runtime.h)
  set(TRAINYARD_HAS_CUDA_HEADERS ON)
  add_library(torch_cuda INTERFACE)
  add_library(torch::cuda ALIAS torch_cuda)
  target_include_directories(torch_cuda SYSTEM INTERFACE ${nvidia_home}/nccl/include ${nvidia_home}/cu13/include)
  target_compile_definitions(torch_cuda INTERFACE USE_C10D_NCCL USE_CUDA)
  file(GLOB cudart ${nvidia_home}/cu13/lib/libcudart.so.*)
  file(GLOB nccl ${nvidia_home}/nccl/lib/libnccl.so.*)
  target_link_libraries(torch_cuda INTERFACE torch_cpu ${torch_lib}/libtorch_cuda.so ${torch_lib}/libc10_cuda.so ${cudart} ${nccl})
endif()
