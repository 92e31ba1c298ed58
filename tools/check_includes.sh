#!/bin/sh
# check_includes.sh [ROOT] - is the order of folders kept? Lists every violation and exits 1 if there is one.
#
#   base  <-  io fnd cpu cuda data nn optim dist  <-  eval report train  <-  cli
#
# A folder sees itself and the rows before its own. In the middle row no folder sees another, but for `io`, which all may see
# (and which sees none of them). Includes in src/ are written from src/ ("base/status.h") or are the public header ("glofnd.h");
# cli/ may name its own headers bare. File names are unique, so that a name in a message or a debugger says enough.
set -u
root=${1:-.}
[ -d "$root/src" ] || { echo "check_includes: no folder $root/src" >&2; exit 2; }

files() {
    (cd "$root" && for top in src cli; do
        [ -d "$top" ] && find "$top" -type f \( -name '*.c' -o -name '*.h' -o -name '*.cu' -o -name '*.cuh' \)
    done | LC_ALL=C sort)
}

# Reads file names on stdin, the files themselves with getline.
files | LC_ALL=C awk -v root="$root" '
BEGIN {
    split("base:1 io:2 fnd:2 cpu:2 cuda:2 data:2 nn:2 optim:2 dist:2 eval:3 report:3 train:3 cli:4", pairs, " ")
    for (i in pairs) { split(pairs[i], p, ":"); row[p[1]] = p[2] }
}
function complain(text) { print text; bad = 1 }
function folder_of(file,    part) { split(file, part, "/"); return part[1] == "src" ? part[2] : part[1] }
function allowed(from, to) {
    if (from == to) return 1
    if (row[from] == 2 && row[to] == 2) return to == "io"
    return row[to] <= row[from]
}
# name: what stands between the quotes or brackets; quoted: which of the two
function check(file, line, name, quoted,    from, to, at) {
    at = file ":" line ": "
    from = folder_of(file)
    to = name
    if (name ~ /\.\.\// || name ~ /^\//) { complain(at name ": write includes from src/, without ../"); return }
    if (!sub(/\/.*/, "", to)) to = ""
    if (!quoted) { if (to in row) complain(at "<" name ">: own headers take quotes"); return }
    if (name == "glofnd.h") return
    if (to == "") {
        if (from == "cli") return
        complain(at "\"" name "\": write the folder, as in \"" from "/" name "\"")
    } else if (!(to in row)) complain(at "\"" name "\": " to " is not a folder of the order")
    else if (!allowed(from, to)) complain(at "\"" name "\": " from " must not include " to)
}
function scan(file,    path, text, line, name) {
    path = root "/" file
    while ((getline text < path) > 0) {
        line++
        if (text !~ /^[ \t]*#[ \t]*include[ \t]*["<]/) continue
        name = text
        sub(/^[ \t]*#[ \t]*include[ \t]*["<]/, "", name)
        sub(/[">].*/, "", name)
        check(file, line, name, text ~ /include[ \t]*"/)
    }
    close(path)
}
{
    base = $0; sub(/.*\//, "", base)
    if (base in seen) complain($0 ": same file name as " seen[base])
    seen[base] = $0
    if (!(folder_of($0) in row)) complain($0 ": its folder is not in the order; see tools/check_includes.sh")
    else scan($0)
    count++
}
END {
    if (!count) complain("no source files found")
    if (!bad) print count " files in order"
    exit bad
}'
