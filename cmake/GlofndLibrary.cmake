# libglofnd, shared and static, from one set of objects; and glofnd_train, the private library of everything around it.
#
# New files are picked up by themselves (CONFIGURE_DEPENDS); a new folder is one line here.

function(glofnd_sources out)
    set(patterns ${ARGN})
    list(TRANSFORM patterns PREPEND ${PROJECT_SOURCE_DIR}/)
    file(GLOB found CONFIGURE_DEPENDS ${patterns})
    set(${out} ${found} PARENT_SCOPE)
endfunction()

# ----- The tiles of the CPU backend: the same sources once per instruction set, chosen at run time -----

include(CheckCCompilerFlag)
include(CheckCSourceCompiles)
set(GLOFND_TILE_FLAGS -ffp-contract=fast -fno-math-errno)
set(GLOFND_ISA_FLAGS_base "")
set(GLOFND_ISA_FLAGS_avx2 -mavx2 -mfma)
set(GLOFND_ISA_FLAGS_avx512 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx2 -mfma -mprefer-vector-width=512)

check_c_source_compiles("
    #ifndef __x86_64__
    #error other CPU
    #endif
    int main(void) { return 0; }" GLOFND_IS_X86_64)
string(REPLACE ";" " " avx512_flags "${GLOFND_ISA_FLAGS_avx512}")
if(GLOFND_IS_X86_64)
    check_c_compiler_flag("${avx512_flags}" GLOFND_HAVE_X86_FLAGS)
endif()

set(GLOFND_ISAS base)
if(GLOFND_IS_X86_64 AND GLOFND_HAVE_X86_FLAGS)
    list(APPEND GLOFND_ISAS avx2 avx512)
endif()

# ----- Objects -----

# The commit is looked up at every build, and the header changes only when the commit does.
set(commit_header ${PROJECT_BINARY_DIR}/generated/method/build_commit.h)
add_custom_target(glofnd_commit BYPRODUCTS ${commit_header}
    COMMAND ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR} -DHEADER=${commit_header} -P ${PROJECT_SOURCE_DIR}/cmake/commit.cmake
    VERBATIM)

function(glofnd_object_library name)
    add_library(${name} OBJECT ${ARGN})
    target_link_libraries(${name} PRIVATE glofnd_flags)
    set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON C_VISIBILITY_PRESET hidden)
endfunction()

glofnd_sources(core_sources src/util/*.c src/io/*.c src/method/*.c src/method/*/*.c src/cpu/passes/*.c)
glofnd_sources(cpu_sources src/cpu/passes/*.c)
glofnd_sources(tile_sources src/cpu/kernels/*.c)
if(NOT GLOFND_HAVE_CUDA)
    list(APPEND core_sources ${PROJECT_SOURCE_DIR}/src/cuda/absent/no_step.c)
endif()

glofnd_object_library(glofnd_core ${core_sources})
add_dependencies(glofnd_core glofnd_commit)
target_include_directories(glofnd_core PRIVATE ${PROJECT_BINARY_DIR}/generated)
set_source_files_properties(${PROJECT_SOURCE_DIR}/src/method/version.c PROPERTIES
    COMPILE_DEFINITIONS "GF_BACKENDS=\"${GLOFND_BACKENDS}\";GF_BUILD_TYPE=\"${CMAKE_BUILD_TYPE}\"")
if(GLOFND_OPENMP_FLAG)
    set_source_files_properties(${PROJECT_SOURCE_DIR}/src/util/parallel.c PROPERTIES COMPILE_OPTIONS "${GLOFND_OPENMP_FLAG}")
endif()
if("avx2" IN_LIST GLOFND_ISAS)
    set_source_files_properties(${cpu_sources} PROPERTIES COMPILE_DEFINITIONS GF_HAVE_X86_TILES)
endif()

set(glofnd_objects $<TARGET_OBJECTS:glofnd_core>)
set(cuda_objects "")            # for glofnd_train
if(GLOFND_HAVE_CUDA)
    glofnd_sources(cuda_step_sources src/cuda/step/*.c src/cuda/step/*.cu src/cuda/passes/*.cu)
    glofnd_cuda_library(glofnd_cuda_step ${cuda_step_sources})
    list(APPEND glofnd_objects $<TARGET_OBJECTS:glofnd_cuda_step>)
    # Kernels with instructions that only this architecture has; other GPUs use the portable ones.
    if(GLOFND_CUDA_ARCHITECTURES MATCHES "90")
        glofnd_sources(cuda_sm90_sources src/cuda/passes/sm90/*.cu)
        glofnd_cuda_library(glofnd_cuda_sm90 ${cuda_sm90_sources})
        set_target_properties(glofnd_cuda_sm90 PROPERTIES CUDA_ARCHITECTURES 90a-real)
        list(APPEND glofnd_objects $<TARGET_OBJECTS:glofnd_cuda_sm90>)
        target_compile_definitions(glofnd_cuda_step PRIVATE GF_HAVE_SM90)
    endif()
    glofnd_sources(cuda_train_sources src/cuda/nn/*.c src/cuda/nn/kernels/*.cu src/cuda/augment/*.c src/cuda/augment/*.cu
        src/cuda/pairs/*.c src/cuda/pairs/*.cu src/cuda/nccl/*.c)
    glofnd_cuda_library(glofnd_cuda_train ${cuda_train_sources})
    list(APPEND cuda_objects $<TARGET_OBJECTS:glofnd_cuda_train>)
endif()
if(tile_sources)
    foreach(isa IN LISTS GLOFND_ISAS)
        glofnd_object_library(glofnd_tile_${isa} ${tile_sources})
        target_compile_definitions(glofnd_tile_${isa} PRIVATE GF_ISA=${isa})
        target_compile_options(glofnd_tile_${isa} PRIVATE ${GLOFND_TILE_FLAGS} ${GLOFND_ISA_FLAGS_${isa}})
        list(APPEND glofnd_objects $<TARGET_OBJECTS:glofnd_tile_${isa}>)
    endforeach()
endif()

# ----- Libraries -----

# Until 1.0 a new minor version may break the binary interface, so it is part of the soname.
set(GLOFND_SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})

add_library(glofnd_shared SHARED ${glofnd_objects})
add_library(glofnd_static STATIC ${glofnd_objects})
add_library(glofnd::glofnd ALIAS glofnd_shared)
add_library(glofnd::static ALIAS glofnd_static)
foreach(library glofnd_shared glofnd_static)
    target_link_libraries(${library} PRIVATE m -pthread $<BUILD_INTERFACE:${GLOFND_OPENMP_FLAG}>)
    if(GLOFND_HAVE_CUDA)
        target_link_libraries(${library} PRIVATE $<BUILD_INTERFACE:CUDA::cudart_static>)
        target_link_options(${library} PRIVATE -Wl,--exclude-libs,ALL)
    endif()
    target_include_directories(${library} INTERFACE
        $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
    set_target_properties(${library} PROPERTIES OUTPUT_NAME glofnd LINKER_LANGUAGE C)
endforeach()
target_compile_definitions(glofnd_static INTERFACE GLOFND_STATIC)
target_link_libraries(glofnd_static INTERFACE $<INSTALL_INTERFACE:${GLOFND_OPENMP_LIBS}> $<INSTALL_INTERFACE:${GLOFND_CUDA_LIBS}>)
set_target_properties(glofnd_shared PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${GLOFND_SOVERSION} EXPORT_NAME glofnd)
set_target_properties(glofnd_static PROPERTIES EXPORT_NAME static)
if(NOT GLOFND_SANITIZED AND NOT APPLE)
    target_link_options(glofnd_shared PRIVATE -Wl,--no-undefined)
endif()

# ----- The training system: private, never installed. What links it gets the static libglofnd with it. -----

# glofnd_part(NAME MODULE HEADER LIBRARY DEBIAN_PACKAGE SOURCES...): code that needs a library of the system, found by its
# pkg-config module or, where it has none, by header and library. Missing, or named in GLOFND_WITHOUT: the sources are left out,
# the functions that need it fail at run time with a message (GLOFND_E_UNSUPPORTED), and the summary says so; else GF_HAVE_<NAME>.
set(GLOFND_WITHOUT "" CACHE STRING
    "Libraries to build without, as if they were not there: any of jansson;jpeg;png;zlib;dnnl;lbfgs;mpi")
find_package(PkgConfig QUIET)
set(GLOFND_LEFT_OUT "")
add_library(glofnd_parts INTERFACE)
target_link_options(glofnd_parts INTERFACE -Wl,--as-needed)     # a program takes only the libraries it uses
function(glofnd_part name module header library package)
    string(TOUPPER ${name} upper)
    set(found "")
    if(name IN_LIST GLOFND_WITHOUT)
        set(GLOFND_LEFT_OUT ${GLOFND_LEFT_OUT} "${name} (by GLOFND_WITHOUT)" PARENT_SCOPE)
        return()
    endif()
    if(module AND PkgConfig_FOUND)
        pkg_check_modules(${upper} QUIET IMPORTED_TARGET ${module})
        if(${upper}_FOUND)
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
    if(found)
        target_link_libraries(glofnd_parts INTERFACE ${found})
        target_compile_definitions(glofnd_parts INTERFACE GF_HAVE_${upper})
        if(ARGN)
            glofnd_sources(sources ${ARGN})
            set(part_sources ${part_sources} ${sources} PARENT_SCOPE)
        endif()
    else()
        set(GLOFND_LEFT_OUT ${GLOFND_LEFT_OUT} "${name} (Debian: ${package})" PARENT_SCOPE)
    endif()
endfunction()

glofnd_part(jansson jansson jansson.h jansson libjansson-dev)
glofnd_part(jpeg libjpeg jpeglib.h jpeg libjpeg62-turbo-dev)
glofnd_part(png libpng png.h png libpng-dev)
glofnd_part(zlib zlib zlib.h z zlib1g-dev)
glofnd_part(dnnl "" dnnl.h dnnl libdnnl-dev src/cpu/nn/*.c)
glofnd_part(lbfgs "" lbfgs.h lbfgs liblbfgs-dev)
glofnd_part(mpi ompi-c mpi.h mpi libopenmpi-dev)

set(train_sources "")
foreach(room io/json image text pairs data loader nn optim dist run train eval discover plot report)
    glofnd_sources(sources src/${room}/*.c src/${room}/*/*.c)
    list(APPEND train_sources ${sources})
endforeach()
if(NOT GLOFND_HAVE_CUDA)
    list(APPEND train_sources ${PROJECT_SOURCE_DIR}/src/cuda/absent/no_train.c)
endif()
set_source_files_properties(${PROJECT_SOURCE_DIR}/src/optim/adamw.c PROPERTIES      # roots in vectors
    COMPILE_OPTIONS -fno-math-errno)
# What pages are made of: style sheets and scripts, as strings.
glofnd_sources(page_files src/report/*.css src/report/*.js src/report/*/*.css src/report/*/*.js)
set(page_strings ${PROJECT_BINARY_DIR}/generated/page_files.c)
add_custom_command(OUTPUT ${page_strings} DEPENDS ${page_files} ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
    COMMAND ${CMAKE_COMMAND} -DOUTPUT=${page_strings} "-DINPUTS=${page_files}" -P ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
    VERBATIM)

add_library(glofnd_train STATIC ${train_sources} ${part_sources} ${cuda_objects} ${page_strings})
if(GLOFND_HAVE_CUDA)
    target_link_libraries(glofnd_train PUBLIC CUDA::cudart_static)
    set_target_properties(glofnd_train PROPERTIES LINKER_LANGUAGE C)
endif()
target_link_libraries(glofnd_train PRIVATE glofnd_flags PUBLIC glofnd_static glofnd_parts m)
target_compile_definitions(glofnd_train PRIVATE _GNU_SOURCE=)
