# make install: the program, the header, both libraries, glofnd.pc, and the CMake package behind
#     find_package(glofnd 0.2 REQUIRED)
#     target_link_libraries(app PRIVATE glofnd::glofnd)       # or glofnd::static
# Both find the rest relative to themselves, so an installed tree may be moved.

include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/glofnd)

install(FILES include/glofnd.h include/glofnd_experimental.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(TARGETS glofnd_shared glofnd_static EXPORT glofndTargets
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET glofnd_cli)
    install(TARGETS glofnd_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(EXPORT glofndTargets NAMESPACE glofnd:: DESTINATION ${package_dir})

configure_package_config_file(cmake/glofndConfig.cmake.in generated/glofndConfig.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(generated/glofndConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/generated/glofndConfig.cmake ${PROJECT_BINARY_DIR}/generated/glofndConfigVersion.cmake
    DESTINATION ${package_dir})

file(RELATIVE_PATH pc_to_prefix /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
string(REGEX REPLACE "/$" "" pc_to_prefix ${pc_to_prefix})
list(JOIN GLOFND_OPENMP_LIBS " " pc_openmp)
list(JOIN GLOFND_CUDA_LIBS " " pc_cuda)
configure_file(cmake/glofnd.pc.in generated/glofnd.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/generated/glofnd.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
