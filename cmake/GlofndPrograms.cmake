# Programs: the command line, and one program per file of bench/, examples/ and fuzz/.
# Code that several benchmarks share goes to bench/support/.

if(GLOFND_PROGRAM)
    glofnd_sources(cli_sources programs/*.c programs/*/*.c)
    add_executable(glofnd_cli ${cli_sources})
    target_link_libraries(glofnd_cli PRIVATE glofnd_flags glofnd_train)
    target_compile_definitions(glofnd_cli PRIVATE _GNU_SOURCE=)
    target_include_directories(glofnd_cli PRIVATE ${PROJECT_SOURCE_DIR})        # "programs/cli.h"
    # As installed: CMake would end the path of a build that it rewrites later in an empty element, the current folder.
    set_target_properties(glofnd_cli PROPERTIES OUTPUT_NAME glofnd RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}
        BUILD_WITH_INSTALL_RPATH ON)
    if(NOT EXISTS ${PROJECT_BINARY_DIR}/configs)        # presets by name; a build in the source folder has them
        file(CREATE_LINK ${PROJECT_SOURCE_DIR}/configs ${PROJECT_BINARY_DIR}/configs SYMBOLIC)
    endif()
    if(GLOFND_STATIC_PROGRAM)
        target_link_options(glofnd_cli PRIVATE -static)
    endif()
endif()

# Benchmarks may look inside the libraries: internal headers, and everything in one shared library. Those that time single passes
# replace functions of the library when they are linked, which takes the static ones.
if(GLOFND_BENCH)
    glofnd_sources(bench_sources bench/*.c)
    glofnd_sources(bench_support bench/support/*.c)
    set(timed_passes gf_cpu_embed gf_cpu_pack gf_cpu_select gf_cpu_sum gf_cpu_close gf_cpu_gradient)
    list(TRANSFORM timed_passes PREPEND -Wl,--wrap=)
    foreach(source IN LISTS bench_sources)
        get_filename_component(name ${source} NAME_WE)
        add_executable(bench_${name} ${source} ${bench_support})
        if(name STREQUAL "loss")
            target_link_libraries(bench_${name} PRIVATE glofnd_flags glofnd_train m)
        else()
            target_link_libraries(bench_${name} PRIVATE glofnd_flags glofnd_whole m)
        endif()
        target_link_options(bench_${name} PRIVATE ${timed_passes})
        target_include_directories(bench_${name} PRIVATE ${PROJECT_SOURCE_DIR}/bench)
        target_compile_definitions(bench_${name} PRIVATE _GNU_SOURCE= BENCH_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
        set_target_properties(bench_${name} PROPERTIES OUTPUT_NAME ${name} RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bench)
    endforeach()
endif()

# Kernels as they grew, with the lesson each version taught: build/bench/cuda/<name>.
if(GLOFND_BENCH AND GLOFND_HAVE_CUDA)
    glofnd_sources(bench_cuda_sources bench/cuda/*.cu)
    if(NOT GLOFND_HAVE_HOPPER)      # these compare kernels of Hopper with others
        list(FILTER bench_cuda_sources EXCLUDE REGEX "/(loss_passes|wide_passes|point)[.]cu$")
    endif()
    foreach(source IN LISTS bench_cuda_sources)
        get_filename_component(name ${source} NAME_WE)
        add_executable(bench_cuda_${name} ${source})
        target_link_libraries(bench_cuda_${name} PRIVATE glofnd_flags glofnd_whole)
        target_include_directories(bench_cuda_${name} PRIVATE ${PROJECT_SOURCE_DIR}/bench)
        glofnd_cuda_once(bench_cuda_${name})
        set_target_properties(bench_cuda_${name} PROPERTIES OUTPUT_NAME ${name}
            RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bench/cuda)
    endforeach()
endif()

# Examples see what a user sees: the public headers and the shared library. Those of ranks and of CUDA need MPI and a CUDA compiler.
if(GLOFND_EXAMPLES)
    glofnd_sources(example_sources examples/*.c)
    set(parts "")
    if(GLOFND_PROGRAM)
        get_target_property(parts glofnd_parts INTERFACE_COMPILE_DEFINITIONS)
    endif()
    foreach(source IN LISTS example_sources)
        get_filename_component(name ${source} NAME_WE)
        if((name MATCHES "ranks" AND NOT "GF_HAVE_MPI" IN_LIST parts) OR (name MATCHES "cuda" AND NOT GLOFND_HAVE_CUDA))
            continue()
        endif()
        add_executable(example_${name} ${source})
        list(APPEND GLOFND_EXAMPLE_TARGETS example_${name})
        target_compile_options(example_${name} PRIVATE $<TARGET_PROPERTY:glofnd_flags,INTERFACE_COMPILE_OPTIONS>)
        target_link_libraries(example_${name} PRIVATE glofnd_shared m)
        if(name MATCHES "ranks")
            target_include_directories(example_${name} SYSTEM PRIVATE ${MPI_INCLUDE_DIRS} ${GLOFND_MPI_HEADER})
            target_link_libraries(example_${name} PRIVATE ${GLOFND_MPI_LIBRARY})
        elseif(name MATCHES "cuda")
            target_link_libraries(example_${name} PRIVATE CUDA::cudart_static)
        endif()
        set_target_properties(example_${name} PROPERTIES OUTPUT_NAME ${name}
            RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/examples)
    endforeach()
endif()

# Fuzzers of the parsers: build/fuzz/<name> [CORPUS], in the build type Fuzz only.
if(GLOFND_PROGRAM AND CMAKE_BUILD_TYPE STREQUAL "Fuzz")
    glofnd_sources(fuzz_sources fuzz/*.c)
    add_custom_target(fuzzers)
    foreach(source IN LISTS fuzz_sources)
        get_filename_component(name ${source} NAME_WE)
        add_executable(${name} ${source})
        target_link_libraries(${name} PRIVATE glofnd_flags glofnd_train)
        target_link_options(${name} PRIVATE -fsanitize=fuzzer)
        target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})        # "fuzz/mutate.h"
        target_compile_definitions(${name} PRIVATE _GNU_SOURCE=)
        set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/fuzz)
        add_dependencies(fuzzers ${name})
    endforeach()
endif()
