# Writes HEADER with the commit of the sources in SOURCE: "1a2b3c4", "1a2b3c4+" with local changes, "none" outside git. A tree
# unpacked inside some other repository must not take that one's commit, hence the test for its own .git.
set(commit none)
find_program(GIT git)
if(GIT AND EXISTS ${SOURCE}/.git)
    execute_process(COMMAND ${GIT} rev-parse --short HEAD WORKING_DIRECTORY ${SOURCE} OUTPUT_VARIABLE hash
        RESULT_VARIABLE failed ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
    if(NOT failed)
        execute_process(COMMAND ${GIT} --no-optional-locks status --porcelain --untracked-files=no WORKING_DIRECTORY ${SOURCE}
            OUTPUT_VARIABLE changes ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
        set(commit ${hash})
        if(changes)
            string(APPEND commit +)
        endif()
    endif()
endif()
file(CONFIGURE OUTPUT ${HEADER} CONTENT "#define GF_BUILD_COMMIT \"${commit}\"\n")
