#!/bin/sh
# check_includes.sh [ROOT] - checks the order of modules and what else keeps sources findable. Lists every violation; exit 1 if any.
#
# A module is a folder of lib/ or train/, or programs. The list below has one line per module, from the lowest up: its name and the
# modules it may include. A module may only name modules above its own line, so there are no cycles.
#   - Includes are written from lib/ or train/ ("util/status.h") or from the root ("programs/cli.h"), or are public headers.
#   - Nothing in lib/ includes anything of train/ or programs/: the library builds alone.
#   - File names are unique, and so are the names of types that several files know.
#   - Only folders named cuda, the formulas that both devices compile and the marks they use may ask for a device: GF_HAVE_CUDA,
#     __CUDACC__.
set -u
root=${1:-.}
[ -d "$root/lib" ] || { echo "check_includes: no folder $root/lib" >&2; exit 2; }

modules='
util            :
io              : util
method/formulas : util
device          : util method/formulas
cpu             : util device method/formulas
method          : util io device method/formulas cpu
pairs           : util device cpu
cuda            : util io device method/formulas pairs
embeddings      : util io
discover        : util io device method pairs embeddings
dist            : util device method cuda
image           : util
text            : util io
nn              : util io device cpu cuda dist
optim           : util nn
data            : util io image text
loader          : util device cuda image text nn data
run             : util io device method nn optim
loop            : util io device method pairs cuda image text nn optim dist data loader run
eval            : util io device cpu image text nn optim pairs data loader run loop
plot            : util
report          : util io image text pairs data run loop eval discover plot
absent          : util dist loader nn
programs        : util io device method cpu cuda image text nn dist pairs embeddings data loader run loop eval discover plot report
'

files() {
    (cd "$root" && for top in lib train programs; do
        [ -d "$top" ] && find "$top" -type f \( -name '*.c' -o -name '*.h' -o -name '*.cu' -o -name '*.cuh' \)
    done | LC_ALL=C sort)
}

# Reads file names on stdin, the files themselves with getline.
files | LC_ALL=C awk -v root="$root" -v list="$modules" '
BEGIN {
    lines = split(list, line, "\n")
    for (i = 1; i <= lines; i++) {
        if (line[i] !~ /:/) continue
        split(line[i], side, ":")
        gsub(/[ \t]/, "", side[1])
        known[side[1]] = ++count_modules
        n = split(side[2], to, " ")
        for (j = 1; j <= n; j++) {
            if (!(to[j] in known))
                complain("check_includes: " side[1] " may include " to[j] ", which is not above it in the list")
            may[side[1], to[j]] = 1
        }
    }
}
function complain(text) { print text; bad = 1 }
function module_of(path,    part) {
    split(path, part, "/")
    if (part[1] == "method" && part[2] == "formulas") return "method/formulas"
    return part[1]
}
function module_of_file(file) {
    return file ~ /^programs\// ? "programs" : module_of(substr(file, index(file, "/") + 1))
}
# name: the text between the quotes or brackets
function check_include(file, at, name, quoted,    from, to) {
    from = module_of_file(file)
    if (name ~ /\.\.\// || name ~ /^\//) { complain(at name ": write includes from lib/ or train/, without ../"); return }
    to = name ~ /\// ? module_of(name) : ""
    if (!quoted) { if (to in known) complain(at "<" name ">: own headers take quotes"); return }
    if (name ~ /^glofnd(_[a-z]+)?\.h$/) return
    if (to == "") complain(at "\"" name "\": write the folder, as in \"" from "/" name "\"")
    else if (!(to in known)) complain(at "\"" name "\": " to " is not a module; see tools/check_includes.sh")
    else if (to != from && !((from, to) in may)) complain(at "\"" name "\": " from " must not include " to)
}
function may_ask_for_a_device(file) {
    return file ~ /\/cuda\// || file ~ /^lib\/(method\/formulas\/|util\/host_device\.h$)/
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
            complain(at "asks for a device; put the code into a folder cuda, its stub into absent")
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
    if (base in seen) complain($0 ": same file name as " seen[base])
    seen[base] = $0
    if (!(module_of_file($0) in known)) complain($0 ": its module is not in the list; see tools/check_includes.sh")
    else scan($0)
    count++
}
END {
    if (!count) complain("no source files found")
    if (!bad) print count " files in order"
    exit bad
}'
