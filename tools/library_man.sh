#!/bin/sh
# library_man.sh VERSION HEADER... - prints libglofnd.3, made of the functions of the headers and the comments before them.
set -eu
version=$1
shift
awk -v version="$version" '
function roff(text) {
    gsub(/\\/, "\\e", text)
    gsub(/-/, "\\-", text)
    return text ~ /^[.\047]/ ? "\\&" text : text
}
function flush_call(    text) {
    text = call
    sub(/^GLOFND_API[ \t]+/, "", text)
    sub(/;.*/, ";", text)
    gsub(/[ \t\n]+/, " ", text)
    print ".TP\n\\fB" roff(text) "\\fR\n" (comment == "" ? "\\&" : roff(comment))
    call = ""
}
BEGIN {
    printf ".TH LIBGLOFND 3 \"\" \"GloFND %s\" \"Library Functions\"\n", version
    print ".SH NAME\nlibglofnd \\- contrastive losses with global false\\-negative discovery"
    print ".SH SYNOPSIS\n.nf\n#include <glofnd.h>\n\ncc app.c $(pkg\\-config \\-\\-cflags \\-\\-libs glofnd)\n.fi"
    print ".SH DESCRIPTION"
    print "The functions of glofnd.h in its order, with the comments that the header gives them. Types and constants, the two"
    print "tiers of the interface and its rules for threads and devices are described there."
}
/^\/\* =====/ {
    line = $0
    sub(/^\/\* =+ */, "", line)
    sub(/ *=+ *\*\/ *$/, "", line)
    print ".SH \"" roff(toupper(line)) "\""
    comment = ""
    next
}
call != "" { call = call " " $0; if ($0 ~ /;/) { flush_call(); comment = "" } next }
/^GLOFND_API/ { call = $0; if ($0 ~ /;/) { flush_call(); comment = "" } next }
/^\/\*/ { inside = 1; comment = "" }
inside {
    line = $0
    done = line ~ /\*\//
    gsub(/^[ \t]*\/?\*+[ \t]?|\*\/.*$/, "", line)
    sub(/[ \t]+$/, "", line)
    comment = comment (comment == "" || line == "" ? "" : " ") line
    if (done) inside = 0
    next
}
/^[ \t]*$/ { comment = "" }
END { print ".SH \"SEE ALSO\"\n.BR glofnd (1)" }
' "$@"
