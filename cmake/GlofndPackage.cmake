# make package: Debian packages by CPack, one per component of GlofndInstall.cmake: libglofnd0.2, libglofnd-dev, glofnd. Their
# dependencies are read from what the binaries link (dpkg-shlibdeps).

set(CPACK_GENERATOR DEB)
set(CPACK_COMPONENTS_ALL library dev program)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGE_NAME glofnd)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
# As Debian's own tools: the maintainer of a package is who makes it.
foreach(name DEBFULLNAME DEBEMAIL)
    set(${name} "$ENV{${name}}")
endforeach()
if(NOT DEBFULLNAME)
    set(DEBFULLNAME "GloFND packager")
endif()
if(NOT DEBEMAIL)
    set(DEBEMAIL root@localhost)
    message(NOTICE "set DEBEMAIL (and DEBFULLNAME): the maintainer in the packages")
endif()
set(CPACK_PACKAGE_CONTACT "${DEBFULLNAME} <${DEBEMAIL}>")
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

set(library_package libglofnd${GLOFND_SOVERSION})
set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME ${library_package})
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
file(WRITE ${generated}/triggers "activate-noawait ldconfig\n")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA ${generated}/triggers)
set(CPACK_COMPONENT_LIBRARY_DESCRIPTION "contrastive losses with global false-negative discovery (library)
 The method alone: thresholds of all samples, losses and gradients, on the CPU
 and, where it was built with CUDA, on a GPU.")
set(CPACK_DEBIAN_DEV_PACKAGE_NAME libglofnd-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "${library_package} (= ${PROJECT_VERSION}-1)")
set(CPACK_COMPONENT_DEV_DESCRIPTION "contrastive losses with global false-negative discovery (development)
 Headers, archive, pkg-config file, CMake package, examples, manual page.")
set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME glofnd)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SECTION science)
set(CPACK_COMPONENT_PROGRAM_DESCRIPTION "contrastive pretraining with global false-negative discovery
 Pretrains image and image-text encoders, finds the false negatives of the loss
 while it trains, evaluates the result, and finds duplicates and false
 negatives in embeddings of any model.")

# What Debian asks of every package: its licence and changes, compressed manual pages.
string(TIMESTAMP now "%a, %d %b %Y %H:%M:%S +0000" UTC)
file(WRITE ${generated}/changelog.Debian
    "glofnd (${PROJECT_VERSION}-1) unstable; urgency=medium\n\n  * See changelog.gz.\n\n -- ${CPACK_PACKAGE_CONTACT}  ${now}\n")
foreach(pair library:${library_package} dev:libglofnd-dev program:glofnd)
    string(REPLACE ":" ";" pair ${pair})
    list(GET pair 0 component)
    list(GET pair 1 package)
    install(FILES LICENSE DESTINATION share/doc/${package} RENAME copyright COMPONENT ${component})
    install(CODE "
        file(MAKE_DIRECTORY ${generated}/${package})
        execute_process(COMMAND gzip -9nc ${PROJECT_SOURCE_DIR}/CHANGELOG.md OUTPUT_FILE ${generated}/${package}/changelog.gz)
        execute_process(COMMAND gzip -9nc ${generated}/changelog.Debian OUTPUT_FILE ${generated}/${package}/changelog.Debian.gz)
        file(GLOB_RECURSE pages \$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/share/man/*.[13])
        foreach(page \${pages})
            execute_process(COMMAND gzip -9nf \${page})
        endforeach()" COMPONENT ${component})
    install(FILES ${generated}/${package}/changelog.gz ${generated}/${package}/changelog.Debian.gz
        DESTINATION share/doc/${package} COMPONENT ${component})
endforeach()
include(CPack)
