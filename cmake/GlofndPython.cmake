# pip install: libglofnd.so under one name (a wheel cannot hold symbolic links), the program and its presets, as the folder of the
# package: glofnd/lib, glofnd/bin, glofnd/share.
set_property(TARGET glofnd_shared PROPERTY VERSION)
set_property(TARGET glofnd_shared PROPERTY SOVERSION)
install(TARGETS glofnd_shared LIBRARY DESTINATION lib COMPONENT python)
# glofnd.jax compiles one file on first use.
install(FILES include/glofnd.h include/glofnd_discover.h include/glofnd_experimental.h DESTINATION include COMPONENT python)
if(TARGET glofnd_cli)
    install(TARGETS glofnd_cli RUNTIME DESTINATION bin COMPONENT python)
    install(DIRECTORY configs DESTINATION share/glofnd COMPONENT python)
endif()
