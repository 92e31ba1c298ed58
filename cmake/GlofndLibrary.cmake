# libglofnd, shared and static, from one set of objects.
#
# New files are picked up by themselves (CONFIGURE_DEPENDS); a new folder is one line here or in GlofndTrain.cmake.

function(glofnd_sources out)
    set(patterns ${ARGN})
    list(TRANSFORM patterns PREPEND ${PROJECT_SOURCE_DIR}/)
    file(GLOB found CONFIGURE_DEPENDS ${patterns})
    set(${out} ${found} PARENT_SCOPE)
endfunction()

# ----- The tiles of the CPU backend: the same sources once per instruction set, chosen at run time -----

include(CheckCCompilerFlag)
include(CheckCSourceCompiles)
include(CheckLinkerFlag)
set(GLOFND_TILE_FLAGS -ffp-contract=fast -fno-math-errno)
set(GLOFND_ISA_FLAGS_base "")
set(GLOFND_ISA_FLAGS_neon -DGF_NEON)       # part of every aarch64
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
check_c_source_compiles("
    #if !defined(__aarch64__) || !defined(__ARM_NEON) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
    #error other CPU
    #endif
    int main(void) { return 0; }" GLOFND_IS_AARCH64)
if(GLOFND_IS_AARCH64)
    list(APPEND GLOFND_ISAS neon)
endif()
set(GLOFND_TILES_DEFINITION GF_HAVE_NO_OTHER_TILES)     # which tiles lib/cpu/cpu_kernels.c chooses from
if("avx2" IN_LIST GLOFND_ISAS)
    set(GLOFND_TILES_DEFINITION GF_HAVE_X86_TILES)
elseif("neon" IN_LIST GLOFND_ISAS)
    set(GLOFND_TILES_DEFINITION GF_HAVE_NEON_TILES)
endif()

# ----- Objects -----

# The commit is looked up at every build, and the header changes only when the commit does.
set(commit_header ${PROJECT_BINARY_DIR}/generated/method/build_commit.h)
add_custom_target(glofnd_commit BYPRODUCTS ${commit_header}
    COMMAND ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR} -DHEADER=${commit_header} -P ${PROJECT_SOURCE_DIR}/cmake/commit.cmake
    VERBATIM)

# Tests and benchmarks look inside: in builds with them, all objects are once more one private shared library (GlofndTrain.cmake),
# so that not each of two hundred programs links all of it. Installed libraries hide what is internal by cmake/glofnd.map.
if(GLOFND_TESTS OR GLOFND_BENCH)
    set(GLOFND_VISIBILITY default)
else()
    set(GLOFND_VISIBILITY hidden)
endif()
check_c_compiler_flag(-fno-semantic-interposition GLOFND_HAVE_NO_INTERPOSITION)

function(glofnd_object_library name)
    add_library(${name} OBJECT ${ARGN})
    target_link_libraries(${name} PRIVATE glofnd_flags)
    set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON C_VISIBILITY_PRESET ${GLOFND_VISIBILITY})
    if(GLOFND_HAVE_NO_INTERPOSITION)
        target_compile_options(${name} PRIVATE $<$<COMPILE_LANGUAGE:C>:-fno-semantic-interposition>)
    endif()
endfunction()

glofnd_sources(core_sources lib/util/*.c lib/io/*.c lib/method/*.c lib/method/formulas/*.c lib/cpu/*.c lib/embeddings/*.c
    lib/pairs/*.c lib/discover/*.c)
glofnd_sources(cpu_sources lib/cpu/*.c)
glofnd_sources(tile_sources lib/cpu/kernels/*.c)
if(NOT GLOFND_HAVE_CUDA)
    list(APPEND core_sources ${PROJECT_SOURCE_DIR}/lib/cuda/absent/no_step.c)
endif()

glofnd_object_library(glofnd_core ${core_sources})
add_dependencies(glofnd_core glofnd_commit)
target_include_directories(glofnd_core PRIVATE ${PROJECT_BINARY_DIR}/generated)
target_compile_definitions(glofnd_core PRIVATE _GNU_SOURCE=)
set_source_files_properties(${PROJECT_SOURCE_DIR}/lib/method/context.c PROPERTIES
    COMPILE_DEFINITIONS "GF_BACKENDS=\"${GLOFND_BACKENDS}\";GF_BUILD_TYPE=\"${CMAKE_BUILD_TYPE}\"")
if(GLOFND_OPENMP_FLAG)
    set_source_files_properties(${PROJECT_SOURCE_DIR}/lib/util/parallel.c PROPERTIES COMPILE_OPTIONS "${GLOFND_OPENMP_FLAG}")
endif()
set_source_files_properties(${cpu_sources} PROPERTIES COMPILE_DEFINITIONS ${GLOFND_TILES_DEFINITION})

set(glofnd_objects $<TARGET_OBJECTS:glofnd_core>)
if(GLOFND_HAVE_CUDA)
    glofnd_sources(cuda_step_sources lib/cuda/*.c lib/cuda/*.cu lib/cuda/pairs/*.c)
    glofnd_sources(cuda_pass_sources lib/cuda/passes/*.cu lib/cuda/pairs/*.cu lib/cuda/cuda_step_rows.cu)
    list(REMOVE_ITEM cuda_step_sources ${PROJECT_SOURCE_DIR}/lib/cuda/cuda_step_rows.cu)
    glofnd_cuda_library(glofnd_cuda_step ${cuda_step_sources})
    glofnd_cuda_library(glofnd_cuda_passes ${cuda_pass_sources})
    glofnd_cuda_once(glofnd_cuda_passes)
    list(APPEND glofnd_objects $<TARGET_OBJECTS:glofnd_cuda_step> $<TARGET_OBJECTS:glofnd_cuda_passes>)
    if(GLOFND_HAVE_HOPPER)
        glofnd_sources(cuda_sm90_sources lib/cuda/sm90/*.cu)
        glofnd_hopper_library(glofnd_cuda_sm90 ${cuda_sm90_sources})
        list(APPEND glofnd_objects $<TARGET_OBJECTS:glofnd_cuda_sm90>)
        target_compile_definitions(glofnd_cuda_passes PRIVATE GF_HAVE_HOPPER)
        target_compile_definitions(glofnd_cuda_sm90 PRIVATE GF_HAVE_HOPPER)
    endif()
endif()
# glofnd_kernels(NAME OUT SOURCES...): the sources once per instruction set; appends the objects to OUT.
function(glofnd_kernels name out)
    foreach(isa IN LISTS GLOFND_ISAS)
        glofnd_object_library(${name}_${isa} ${ARGN})
        target_compile_definitions(${name}_${isa} PRIVATE GF_ISA=${isa})
        target_compile_options(${name}_${isa} PRIVATE ${GLOFND_TILE_FLAGS} ${GLOFND_ISA_FLAGS_${isa}})
        list(APPEND ${out} $<TARGET_OBJECTS:${name}_${isa}>)
    endforeach()
    set(${out} ${${out}} PARENT_SCOPE)
endfunction()
glofnd_kernels(glofnd_tile glofnd_objects ${tile_sources})

# ----- Libraries -----

# Until 1.0 a new minor version may break the binary interface, so it is part of the soname.
set(GLOFND_SOVERSION ${PROJECT_VERSION_MAJOR})

add_library(glofnd_shared SHARED ${glofnd_objects})
add_library(glofnd_static STATIC ${glofnd_objects})
add_library(glofnd::glofnd ALIAS glofnd_shared)
add_library(glofnd::static ALIAS glofnd_static)
foreach(library glofnd_shared glofnd_static)
    target_link_libraries(${library} PRIVATE m -pthread ${CMAKE_DL_LIBS} $<BUILD_INTERFACE:${GLOFND_OPENMP_FLAG}>)
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
set(symbol_versions -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/glofnd.map)
check_linker_flag(C ${symbol_versions} GLOFND_HAVE_SYMBOL_VERSIONS)
if(GLOFND_HAVE_SYMBOL_VERSIONS AND NOT GLOFND_SANITIZED)
    target_link_options(glofnd_shared PRIVATE ${symbol_versions})
    set_target_properties(glofnd_shared PROPERTIES LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/glofnd.map)
endif()
