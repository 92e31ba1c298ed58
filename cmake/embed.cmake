# embed.cmake - text files as C strings: cmake -DOUTPUT=x.c "-DINPUTS=a.css;b.js" -P embed.cmake
# train/report/explorer.css becomes `const char gf_explorer_css[]`.
set(code "/* made by cmake/embed.cmake */\n")
foreach(input IN LISTS INPUTS)
    file(READ ${input} text)
    get_filename_component(name ${input} NAME)
    string(REPLACE "." "_" name ${name})
    string(REPLACE "\\" "\\\\" text "${text}")
    string(REPLACE "\"" "\\\"" text "${text}")
    string(REPLACE "\n" "\\n\"\n    \"" text "${text}")
    string(APPEND code "extern const char gf_${name}[];\nconst char gf_${name}[] =\n    \"${text}\";\n")
endforeach()
file(WRITE ${OUTPUT} "${code}")
