# make install, in three components:
#   library   libglofnd.so
#   dev       header, archive, glofnd.pc, libglofnd.3, examples, and the CMake package behind
#                 find_package(glofnd 1.0 REQUIRED)
#                 target_link_libraries(app PRIVATE glofnd::glofnd)       # or glofnd::static
#   program   glofnd, its presets (glofnd pretrain --config NAME), manual pages, completion, docs
# All find the rest relative to themselves, so an installed tree may be moved.

include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/glofnd)
set(generated ${PROJECT_BINARY_DIR}/generated)

# ----- library, dev -----

install(FILES include/glofnd.h include/glofnd_discover.h include/glofnd_experimental.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT dev)
install(TARGETS glofnd_shared glofnd_static EXPORT glofndTargets
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library NAMELINK_COMPONENT dev
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT dev)
install(EXPORT glofndTargets NAMESPACE glofnd:: DESTINATION ${package_dir} COMPONENT dev)

configure_package_config_file(cmake/glofndConfig.cmake.in generated/glofndConfig.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(generated/glofndConfigVersion.cmake COMPATIBILITY SameMajorVersion)
install(FILES ${generated}/glofndConfig.cmake ${generated}/glofndConfigVersion.cmake DESTINATION ${package_dir} COMPONENT dev)

file(RELATIVE_PATH pc_to_prefix /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
string(REGEX REPLACE "/$" "" pc_to_prefix ${pc_to_prefix})
list(JOIN GLOFND_OPENMP_LIBS " " pc_openmp)
list(JOIN GLOFND_CUDA_LIBS " " pc_cuda)
configure_file(cmake/glofnd.pc.in generated/glofnd.pc @ONLY)
install(FILES ${generated}/glofnd.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT dev)

execute_process(COMMAND sh ${PROJECT_SOURCE_DIR}/tools/library_man.sh ${PROJECT_VERSION} ${PROJECT_SOURCE_DIR}/include/glofnd.h
    ${PROJECT_SOURCE_DIR}/include/glofnd_discover.h ${PROJECT_SOURCE_DIR}/include/glofnd_experimental.h OUTPUT_FILE ${generated}/libglofnd.3 COMMAND_ERROR_IS_FATAL ANY)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS include/glofnd.h include/glofnd_discover.h include/glofnd_experimental.h
    tools/library_man.sh)
install(FILES ${generated}/libglofnd.3 DESTINATION ${CMAKE_INSTALL_MANDIR}/man3 COMPONENT dev)
install(DIRECTORY examples DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT dev FILES_MATCHING PATTERN "*.c")

# ----- program -----

if(NOT TARGET glofnd_cli)
    return()
endif()
install(TARGETS glofnd_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program)
install(DIRECTORY configs DESTINATION ${CMAKE_INSTALL_DATADIR}/glofnd COMPONENT program)
if(NOT GLOFND_PACKAGE)      # Debian has its own names for these two
    install(FILES CHANGELOG.md FORMATS.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program)
endif()
install(FILES README.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program)
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program)

# Manual pages and completion come out of the program's tables of flags: the program writes them when it is installed.
if(NOT CMAKE_CROSSCOMPILING)
    set(shell ${generated}/shell)
    install(CODE "
        file(MAKE_DIRECTORY ${shell})
        execute_process(COMMAND $<TARGET_FILE:glofnd_cli> man ${shell}/man1 COMMAND_ERROR_IS_FATAL ANY)
        foreach(name bash zsh fish)
            execute_process(COMMAND $<TARGET_FILE:glofnd_cli> completion \${name} OUTPUT_FILE ${shell}/\${name}
                COMMAND_ERROR_IS_FATAL ANY)
        endforeach()" COMPONENT program)
    install(DIRECTORY ${shell}/man1 DESTINATION ${CMAKE_INSTALL_MANDIR} COMPONENT program)
    install(FILES ${shell}/bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME glofnd COMPONENT program)
    install(FILES ${shell}/zsh DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions RENAME _glofnd COMPONENT program)
    install(FILES ${shell}/fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d RENAME glofnd.fish
        COMPONENT program)
endif()
