# glofnd_train: everything around libglofnd that the program needs. Private, never installed; what links it gets the static
# libglofnd with it.

# glofnd_part(NAME MODULE HEADER LIBRARY DEBIAN_PACKAGE SOURCES...): code that needs a library of the system, found by its
# pkg-config module or, where it has none, by header and library. Missing, or named in GLOFND_WITHOUT: the sources are left out,
# the functions that need it fail at run time with a message (GLOFND_E_UNSUPPORTED), and the summary lists it. Else GF_HAVE_<NAME>
# is defined. Those in GLOFND_OPENED are not linked but opened when they are needed (lib/util/machine.h), by the name
# in GF_<NAME>_SONAME: the program starts where they are missing.
set(GLOFND_OPENED dnnl mpi)
set(GLOFND_WITHOUT "" CACHE STRING
    "Libraries to build without, as if they were not there: any of jpeg;png;webp;utf8proc;zlib;zstd;dnnl;lbfgs;mpi")
if(GLOFND_STATIC_PROGRAM)
    list(APPEND GLOFND_WITHOUT dnnl mpi)    # Debian has no archive of these, and they open further libraries themselves
    set(CMAKE_FIND_LIBRARY_SUFFIXES .a)
endif()
option(GLOFND_ARCHIVES "Take libraries that are linked, not opened at run time, from their archives (.a): the program needs glibc alone" OFF)
mark_as_advanced(GLOFND_ARCHIVES)
find_package(PkgConfig QUIET)
set(GLOFND_LEFT_OUT "")
add_library(glofnd_parts INTERFACE)
if(GLOFND_STATIC_PROGRAM)
    target_compile_definitions(glofnd_parts INTERFACE GF_STATIC_PROGRAM)    # lib/util/machine.h
endif()
target_link_options(glofnd_parts INTERFACE -Wl,--as-needed)     # a program takes only the libraries it uses
function(glofnd_open_at_run_time upper found)
    if(TARGET ${found})         # of pkg-config
        target_include_directories(glofnd_parts SYSTEM INTERFACE ${${upper}_INCLUDE_DIRS})
        find_library(GLOFND_${upper}_LIBRARY ${library} HINTS ${${upper}_LIBRARY_DIRS})
    endif()
    file(REAL_PATH ${GLOFND_${upper}_LIBRARY} file)
    get_filename_component(file ${file} NAME)
    string(REGEX REPLACE "(\\.so\\.[0-9]+).*" "\\1" file ${file})        # libx.so.40.30.4: libx.so.40
    target_compile_definitions(glofnd_parts INTERFACE GF_${upper}_SONAME="${file}")
    if(GLOFND_SANITIZED)        # The leak sanitizer fails on thread-local memory of libraries that come late: they come early.
        target_link_libraries(glofnd_parts INTERFACE -Wl,--no-as-needed,${GLOFND_${upper}_LIBRARY},--as-needed)
    endif()
endfunction()
function(glofnd_part name module header library package)
    string(TOUPPER ${name} upper)
    set(found "")
    if(name IN_LIST GLOFND_WITHOUT)
        set(GLOFND_LEFT_OUT ${GLOFND_LEFT_OUT} "${name} (by GLOFND_WITHOUT)" PARENT_SCOPE)
        return()
    endif()
    if(GLOFND_ARCHIVES AND NOT name IN_LIST GLOFND_OPENED)
        set(CMAKE_FIND_LIBRARY_SUFFIXES .a)     # in this function
    endif()
    if(module AND PkgConfig_FOUND)
        pkg_check_modules(${upper} QUIET IMPORTED_TARGET ${module})
        if(${upper}_FOUND AND GLOFND_STATIC_PROGRAM)
            set(found ${${upper}_STATIC_LDFLAGS})
            target_include_directories(glofnd_parts SYSTEM INTERFACE ${${upper}_INCLUDE_DIRS})
        elseif(${upper}_FOUND)
            set(found PkgConfig::${upper})
        endif()
    endif()
    if(NOT found)
        find_path(GLOFND_${upper}_HEADER ${header})
        find_library(GLOFND_${upper}_LIBRARY ${library})
        mark_as_advanced(GLOFND_${upper}_HEADER GLOFND_${upper}_LIBRARY)
        if(GLOFND_${upper}_HEADER AND GLOFND_${upper}_LIBRARY)
            set(found ${GLOFND_${upper}_LIBRARY})
            target_include_directories(glofnd_parts SYSTEM INTERFACE ${GLOFND_${upper}_HEADER})
        endif()
    endif()
    if(found AND name IN_LIST GLOFND_OPENED)
        glofnd_open_at_run_time(${upper} ${found})
    elseif(found)
        target_link_libraries(glofnd_parts INTERFACE ${found})
    endif()
    if(found)
        target_compile_definitions(glofnd_parts INTERFACE GF_HAVE_${upper})
        if(ARGN)
            glofnd_sources(sources ${ARGN})
            set(part_sources ${part_sources} ${sources} PARENT_SCOPE)
        endif()
    else()
        set(GLOFND_LEFT_OUT ${GLOFND_LEFT_OUT} "${name} (Debian: ${package})" PARENT_SCOPE)
    endif()
endfunction()

glofnd_part(jpeg libjpeg jpeglib.h jpeg libjpeg62-turbo-dev)
glofnd_part(png libpng png.h png libpng-dev)
glofnd_part(webp libwebp webp/decode.h webp libwebp-dev)
glofnd_part(utf8proc libutf8proc utf8proc.h utf8proc libutf8proc-dev)
glofnd_part(zlib zlib zlib.h z zlib1g-dev)
glofnd_part(zstd libzstd zstd.h zstd libzstd-dev)
# libglofnd opens these two when a Parquet file needs them; a static program has them inside.
foreach(name ZLIB ZSTD)
    get_target_property(definitions glofnd_parts INTERFACE_COMPILE_DEFINITIONS)
    if(GLOFND_STATIC_PROGRAM AND "GF_HAVE_${name}" IN_LIST definitions)
        set_property(SOURCE ${PROJECT_SOURCE_DIR}/lib/io/parquet_codec.c APPEND PROPERTY
            COMPILE_DEFINITIONS GF_LINKED_${name})
    endif()
endforeach()
glofnd_part(dnnl "" dnnl.h dnnl libdnnl-dev train/nn/cpu/*.c)
glofnd_part(lbfgs "" lbfgs.h lbfgs liblbfgs-dev)
glofnd_part(mpi ompi-c mpi.h mpi libopenmpi-dev)

glofnd_sources(train_sources train/*/*.c train/data/formats/*.c train/data/official/*.c)
list(FILTER train_sources EXCLUDE REGEX "/train/absent/")
if(NOT GLOFND_HAVE_CUDA)
    list(APPEND train_sources ${PROJECT_SOURCE_DIR}/train/absent/no_train.c)
endif()
set_source_files_properties(${PROJECT_SOURCE_DIR}/train/optim/optim.c PROPERTIES      # roots in vectors
    COMPILE_OPTIONS -fno-math-errno)
# Parts of pages: style sheets and scripts, as strings.
glofnd_sources(page_files train/report/*.css train/report/*.js)
set(page_strings ${PROJECT_BINARY_DIR}/generated/page_files.c)
add_custom_command(OUTPUT ${page_strings} DEPENDS ${page_files} ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
    COMMAND ${CMAKE_COMMAND} -DOUTPUT=${page_strings} "-DINPUTS=${page_files}" -P ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
    VERBATIM)

set(train_objects "")
glofnd_sources(net_kernel_sources train/nn/cpu/kernels/*.c)
glofnd_kernels(glofnd_net_kernel train_objects ${net_kernel_sources})
set_source_files_properties(${PROJECT_SOURCE_DIR}/train/nn/net_cpu.c PROPERTIES
    COMPILE_DEFINITIONS ${GLOFND_TILES_DEFINITION})
if(GLOFND_HAVE_CUDA)
    glofnd_sources(cuda_train_sources train/nn/cuda/*.c train/nn/cuda/*.cu train/loader/cuda/*.c train/loader/cuda/*.cu
        train/dist/cuda/*.c)
    glofnd_cuda_library(glofnd_cuda_train ${cuda_train_sources})
    list(APPEND train_objects $<TARGET_OBJECTS:glofnd_cuda_train>)
    if(GLOFND_HAVE_HOPPER)
        glofnd_sources(cuda_train_sm90_sources train/nn/cuda/sm90/*.cu)
        glofnd_hopper_library(glofnd_cuda_train_sm90 ${cuda_train_sm90_sources})
        list(APPEND train_objects $<TARGET_OBJECTS:glofnd_cuda_train_sm90>)
        target_compile_definitions(glofnd_cuda_train PRIVATE GF_HAVE_HOPPER)
    endif()
endif()

glofnd_object_library(glofnd_train_objects ${train_sources} ${part_sources} ${page_strings})
target_link_libraries(glofnd_train_objects PRIVATE glofnd_parts)
target_compile_definitions(glofnd_train_objects PRIVATE _GNU_SOURCE=)
list(APPEND train_objects $<TARGET_OBJECTS:glofnd_train_objects>)

add_library(glofnd_train STATIC ${train_objects})
target_link_libraries(glofnd_train PUBLIC glofnd_static glofnd_parts m ${CMAKE_DL_LIBS})
set_target_properties(glofnd_train PROPERTIES LINKER_LANGUAGE C)

# Everything in one shared library, for tests and benchmarks. Its allocations can be made to fail (tests/support/faults.h).
if(GLOFND_TESTS OR GLOFND_BENCH)
    add_library(glofnd_whole SHARED ${glofnd_objects} ${train_objects} ${PROJECT_SOURCE_DIR}/tests/support/faults.c)
    target_link_libraries(glofnd_whole PUBLIC glofnd_parts m -pthread ${CMAKE_DL_LIBS} PRIVATE ${GLOFND_OPENMP_FLAG})
    set(GLOFND_WRAPPED_ALLOCATIONS malloc calloc realloc aligned_alloc posix_memalign)
    list(TRANSFORM GLOFND_WRAPPED_ALLOCATIONS PREPEND -Wl,--wrap=)
    target_link_options(glofnd_whole PRIVATE ${GLOFND_WRAPPED_ALLOCATIONS})
    set_target_properties(glofnd_whole PROPERTIES LINKER_LANGUAGE C)
endif()
foreach(library glofnd_train glofnd_whole)
    if(GLOFND_HAVE_CUDA AND TARGET ${library})
        target_link_libraries(${library} PUBLIC CUDA::cudart_static)
    endif()
endforeach()
