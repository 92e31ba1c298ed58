# The wheel of pyproject.toml: libglofnd.so alone, under one name: a wheel cannot hold symbolic links.
set_property(TARGET glofnd_shared PROPERTY VERSION)
set_property(TARGET glofnd_shared PROPERTY SOVERSION)
install(TARGETS glofnd_shared LIBRARY DESTINATION lib COMPONENT python)
# glofnd.jax compiles one file on first use.
install(FILES include/glofnd.h include/glofnd_discover.h include/glofnd_experimental.h DESTINATION include COMPONENT python)
