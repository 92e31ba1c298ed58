#!/bin/sh
# check_includes.sh [ROOT] - checks the order of rooms and what else keeps sources findable. Lists every violation; exit 1 if any.
#
# A room is a folder of src/, or cli. The list below has one line per room, from the lowest up: its name and the rooms it may
# include. A room may only name rooms above its own line, so there are no cycles, inside a row or across rows.
#   - Includes in src/ and cli/ are written from src/ ("util/status.h") or from the root ("cli/args.h"), or are "glofnd.h".
#   - File names are unique, and so are the names of types that several files know.
#   - Only src/cuda, the formulas that both devices compile and the marks they use may ask for a device: GF_HAVE_CUDA, __CUDACC__.
#   - No folder has more than 25 files.
set -u
root=${1:-.}
[ -d "$root/src" ] || { echo "check_includes: no folder $root/src" >&2; exit 2; }

rooms='
util            :
io              : util
method/formulas : util
ifc             : util method/formulas
cpu             : util ifc method/formulas
method          : util io ifc method/formulas cpu
image           : util ifc
text            : util io
nn              : util ifc
optim           : util ifc
dist            : util ifc
pairs           : util ifc cpu
cuda            : util io ifc method/formulas pairs
embeddings      : util io
discover        : util io ifc pairs embeddings
data            : util io image text embeddings discover
loader          : util ifc image text data
run             : util io ifc method nn optim
train           : util io ifc method pairs cuda image text nn optim dist data loader run
eval            : util io ifc cpu image text nn optim pairs data loader run train
plot            : util
report          : util io image text pairs data run train eval discover plot
cli             : util io ifc method cpu cuda image text nn dist pairs data loader run train eval discover plot report
'

files() {
    (cd "$root" && for top in src cli; do
        [ -d "$top" ] && find "$top" -type f \( -name '*.c' -o -name '*.h' -o -name '*.cu' -o -name '*.cuh' \)
    done | LC_ALL=C sort)
}

# Reads file names on stdin, the files themselves with getline.
files | LC_ALL=C awk -v root="$root" -v list="$rooms" '
BEGIN {
    lines = split(list, line, "\n")
    for (i = 1; i <= lines; i++) {
        if (line[i] !~ /:/) continue
        split(line[i], side, ":")
        gsub(/[ \t]/, "", side[1])
        known[side[1]] = ++count_rooms
        n = split(side[2], to, " ")
        for (j = 1; j <= n; j++) {
            if (!(to[j] in known))
                complain("check_includes: " side[1] " may include " to[j] ", which is not above it in the list")
            may[side[1], to[j]] = 1
        }
    }
}
function complain(text) { print text; bad = 1 }
function room_of(path,    part) {
    split(path, part, "/")
    if (part[1] == "method" && part[2] == "formulas") return "method/formulas"
    return part[1]
}
function room_of_file(file) { return file ~ /^src\// ? room_of(substr(file, 5)) : "cli" }
# name: the text between the quotes or brackets
function check_include(file, at, name, quoted,    from, to) {
    from = room_of_file(file)
    if (name ~ /\.\.\// || name ~ /^\//) { complain(at name ": write includes from src/, without ../"); return }
    to = name ~ /\// ? room_of(name) : ""
    if (!quoted) { if (to in known) complain(at "<" name ">: own headers take quotes"); return }
    if (name == "glofnd.h") return
    if (to == "") complain(at "\"" name "\": write the folder, as in \"" from "/" name "\"")
    else if (!(to in known)) complain(at "\"" name "\": " to " is not a room; see tools/check_includes.sh")
    else if (to != from && !((from, to) in may)) complain(at "\"" name "\": " from " must not include " to)
}
function may_ask_for_a_device(file) {
    return file ~ /^src\/(cuda|method\/formulas)\// || file ~ /^src\/util\/host_device\.h$/
}
function check_type(at, text,    name) {
    if (text !~ /^\} *(gf|glofnd)_[a-z0-9_]+;/ && text !~ /^typedef .*\(\*(gf)_[a-z0-9_]+\)\(/) return
    name = text
    sub(/^typedef .*\(\*/, "", name); sub(/^\} */, "", name); sub(/[^a-z0-9_].*/, "", name)
    if (name in type) complain(at name ": a type of this name is in " type[name])
    type[name] = at
}
function scan(file,    path, text, number, name) {
    path = root "/" file
    while ((getline text < path) > 0) {
        number++
        at = file ":" number ": "
        check_type(at, text)
        if (text ~ /^[ \t]*#.*(GF_HAVE_CUDA|__CUDACC__|__CUDA_ARCH__)/ && !may_ask_for_a_device(file))
            complain(at "asks for a device; put the code into src/cuda, its stub into src/cuda/absent")
        if (text !~ /^[ \t]*#[ \t]*include[ \t]*["<]/) continue
        name = text
        sub(/^[ \t]*#[ \t]*include[ \t]*["<]/, "", name)
        sub(/[">].*/, "", name)
        check_include(file, at, name, text ~ /include[ \t]*"/)
    }
    close(path)
}
{
    base = $0; sub(/.*\//, "", base)
    folder = $0; sub(/\/[^\/]*$/, "", folder)
    if (base in seen) complain($0 ": same file name as " seen[base])
    seen[base] = $0
    if (++in_folder[folder] == 26) complain(folder ": more than 25 files; make rooms")
    if (!(room_of_file($0) in known)) complain($0 ": its room is not in the list; see tools/check_includes.sh")
    else scan($0)
    count++
}
END {
    if (!count) complain("no source files found")
    if (!bad) print count " files in order"
    exit bad
}'
