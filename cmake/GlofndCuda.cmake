# The CUDA backend, where a CUDA compiler is found (GLOFND_CUDA=AUTO), must be there (ON), or is not wanted (OFF).
#
#   lib/cuda/   the method and all pairs on the device: part of libglofnd
#   train/nn/cuda/ train/loader/cuda/ train/dist/cuda/   networks, views, NCCL: part of glofnd_train
#   lib/cuda/sm90/ train/nn/cuda/sm90/   faster kernels with instructions that only Hopper has; GLOFND_HOPPER=OFF leaves them out
#   lib/cuda/absent/ train/absent/   stubs of both, for builds without CUDA
# The runtime is linked statically; cuDNN and cuBLASLt are opened at run time, so a build with CUDA runs where they are missing.

set(GLOFND_CUDA AUTO CACHE STRING "AUTO, ON or OFF")
set(GLOFND_CUDA_ARCHITECTURES "80-virtual;90-real" CACHE STRING "as CMAKE_CUDA_ARCHITECTURES")
option(GLOFND_HOPPER "Kernels of their own for Hopper GPUs, if 90 is among the architectures; else these use the portable ones" ON)
set(GLOFND_HAVE_CUDA FALSE)
set(GLOFND_BACKENDS cpu)
set(GLOFND_CUDA_LIBS "")        # for users of the installed static library
set(GLOFND_CUDA_TEXT "")

if(NOT GLOFND_CUDA STREQUAL "OFF" AND NOT GLOFND_SANITIZED AND NOT GLOFND_STATIC_PROGRAM)
    include(CheckLanguage)
    check_language(CUDA)
    if(CMAKE_CUDA_COMPILER)
        set(CMAKE_CUDA_ARCHITECTURES ${GLOFND_CUDA_ARCHITECTURES})
        set(CMAKE_CUDA_STANDARD 17)
        enable_language(CUDA)
        find_package(CUDAToolkit REQUIRED)
        set(GLOFND_HAVE_CUDA TRUE)
        set(GLOFND_BACKENDS "cpu cuda")
        set(GLOFND_HAVE_HOPPER FALSE)
        if(GLOFND_HOPPER AND GLOFND_CUDA_ARCHITECTURES MATCHES "90")
            set(GLOFND_HAVE_HOPPER TRUE)
        endif()
        set(GLOFND_CUDA_LIBS ${CUDA_cudart_static_LIBRARY} -ldl -lrt)
        set(GLOFND_CUDA_TEXT "${CMAKE_CUDA_COMPILER_VERSION} for ${GLOFND_CUDA_ARCHITECTURES}")
    elseif(GLOFND_CUDA STREQUAL "ON")
        message(FATAL_ERROR "GLOFND_CUDA=ON, but no CUDA compiler was found: put nvcc on PATH or set CMAKE_CUDA_COMPILER")
    endif()
endif()

# Kernels for all architectures. C++ only as far as nvcc insists: no exceptions, no run-time types, nothing of the C++ library at
# link time.
function(glofnd_cuda_library name)
    add_library(${name} OBJECT ${ARGN})
    target_link_libraries(${name} PRIVATE glofnd_flags CUDA::toolkit)
    target_compile_options(${name} PRIVATE
        $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr>
        $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-fno-exceptions,-fno-rtti,-fno-threadsafe-statics,-fvisibility=${GLOFND_VISIBILITY}>)
    set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON C_VISIBILITY_PRESET ${GLOFND_VISIBILITY})
endfunction()

# The compiler's front end runs once for every virtual architecture, and takes most of the time. Made from compute_80, code for Hopper
# has the same instructions, unless kernels convert single numbers to bf16, for which Hopper has one of its own: one run serves both.
function(glofnd_cuda_once name)
    if(GLOFND_CUDA_ARCHITECTURES STREQUAL "80-virtual;90-real")
        set_target_properties(${name} PROPERTIES CUDA_ARCHITECTURES OFF)
        target_compile_options(${name} PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:-gencode=arch=compute_80,code=[compute_80,sm_90]>)
    endif()
endfunction()

# Kernels with instructions that only Hopper has.
function(glofnd_hopper_library name)
    glofnd_cuda_library(${name} ${ARGN})
    set_target_properties(${name} PROPERTIES CUDA_ARCHITECTURES 90a-real)
endfunction()
