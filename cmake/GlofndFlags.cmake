# Build types, warnings and OpenMP. Everything we compile links the interface target glofnd_flags.
#
#   Release (default)   -O3, line tables
#   Debug               -O0, asserts
#   San                 AddressSanitizer + UndefinedBehaviorSanitizer; the first finding ends the program
#   Tsan                ThreadSanitizer; without OpenMP, whose runtime it cannot see into
#   Fuzz                as San, instrumented for libFuzzer (clang only); builds fuzz/

if(NOT CMAKE_BUILD_TYPE)
    set(CMAKE_BUILD_TYPE Release)   # not in the cache: inside another project this one is still optimised, the other as it likes
endif()

set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_C_FLAGS_RELEASE "-O3 -g1 -DNDEBUG")
set(CMAKE_C_FLAGS_DEBUG "-O0 -g")
set(CMAKE_C_FLAGS_SAN "-O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined,float-cast-overflow -fno-sanitize-recover=all")
set(CMAKE_C_FLAGS_TSAN "-O1 -g -fno-omit-frame-pointer -fsanitize=thread")
set(CMAKE_C_FLAGS_FUZZ "${CMAKE_C_FLAGS_SAN} -fsanitize=fuzzer-no-link")

set(GLOFND_SANITIZED OFF)
if(CMAKE_BUILD_TYPE MATCHES "^(San|Tsan|Fuzz)$")
    set(GLOFND_SANITIZED ON)
endif()

add_library(glofnd_flags INTERFACE)
set(warnings -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla)
set(cuda_warnings -Xcompiler=-Wall,-Wextra,-Wno-unused-function)
if(GLOFND_WERROR)
    list(APPEND warnings -Werror)
    list(APPEND cuda_warnings -Werror=all-warnings)
endif()
target_compile_options(glofnd_flags INTERFACE "$<$<COMPILE_LANGUAGE:C>:${warnings}>"
    "$<$<COMPILE_LANGUAGE:CUDA>:${cuda_warnings}>")
target_compile_definitions(glofnd_flags INTERFACE GLOFND_EXPERIMENTAL)     # all of glofnd.h
target_include_directories(glofnd_flags INTERFACE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/lib
    ${PROJECT_SOURCE_DIR}/train)

# OpenMP is seen by lib/util/parallel.c alone. Our own links take the compiler's flag; users of the installed static library get
# the runtime library itself, which works for any of their compilers and asks nothing of their CMake: gcc's by name, others,
# which may lie where only their own compiler looks, by path.
set(GLOFND_OPENMP_FLAG "")
set(GLOFND_OPENMP_LIBS "")
if(GLOFND_OPENMP AND NOT CMAKE_BUILD_TYPE STREQUAL "Tsan")
    find_package(OpenMP QUIET COMPONENTS C)
    if(OpenMP_C_FOUND)
        separate_arguments(GLOFND_OPENMP_FLAG UNIX_COMMAND "${OpenMP_C_FLAGS}")
        set(GLOFND_OPENMP_LIBS ${OpenMP_C_LIBRARIES})
        if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
            set(GLOFND_OPENMP_LIBS -lgomp)
        endif()
    endif()
endif()
