# What README.md, CONTRIBUTING.md and docs/ name is there: links and paths of this repository, programs of the build folder, names
# of functions, and of every `glofnd VERB` its verb and its flags. Lists all that is wrong.
. "$2/tests/sh/common.inc"
needs
cd "$source" || exit 1
pages="README.md CONTRIBUTING.md ARCHITECTURE.md FORMATS.md ROADMAP.md CHANGELOG.md SECURITY.md $(find docs -name '*.md' | sort)"
bad=$scratch/bad known=$scratch/known
: > "$bad"
wrong() { echo "$*" >> "$bad"; }
# named PATTERN PAGE: what matches there, each once
named() { grep -oE -- "$1" "$2" | sort -u; }
# headings PAGE: as the links to them are written
headings() { sed -n 's/^##* //p' "$1" | tr 'A-Z ' 'a-z-' | tr -cd 'a-z0-9_\n-'; }
# any FILE-PATTERN: is there such a file? Patterns are the shell's.
any() { for match in $1; do [ -e "$match" ] && return 0; done; return 1; }

# ----- links and paths -----

folders='lib|train|programs|include|python|tests|tools|configs|docs|bench|examples|fuzz|cmake|\.ci'
find lib train programs include python tests tools bench examples fuzz cmake -type f > "$scratch/files"
for page in $pages; do
    for target in $(named '\]\([^)]*\)' $page | sed 's/^](//; s/)$//' | grep -v '^https*:'); do
        case $target in '#'*) file=$page ;; *) file=$(dirname $page)/${target%%#*} ;; esac
        [ -e "$file" ] || wrong "$page: no $target to link to"
        case $target in *'#'*) headings "$file" | grep -qx -- "${target#*#}" || wrong "$page: no heading for $target" ;; esac
    done
    set -f
    paths=$(grep -oE "(^|[^A-Za-z0-9_./-])($folders)/[A-Za-z0-9_.*/-]*" $page | sed 's/^[^a-z.]//; s/[.-]*$//' | sort -u |
        grep -vE '/(unit_|golden_|grad_|fault_|long_)?x(\.|$)' |             # tests/unit_x.c is any of them
        grep -vE '^train/([a-z_]*$|WNID/)')                             # values of log.jsonl; the folder of a download
    set +f
    printf '%s\n' "$paths" | while read -r path; do [ -z "$path" ] || any "$path" || wrong "$page: no $path"; done
    # A file by the end of its path, as in `method/step/step.c`.
    set -f
    for name in $(named '`[A-Za-z0-9_./*-]+\.(c|h|cu|cuh)`' $page | tr -d '`' | grep -v '/x\.\|_x\.\|^x\.'); do
        grep -qE "(^|/)$(echo "$name" | sed 's/\./\\./g; s/\*/[^\/]*/g')\$" "$scratch/files" || wrong "$page: no file $name"
    done
    for program in $(named 'build/(tests|bench|examples)/[a-z0-9_]+' $page); do
        name=${program##*/} folder=${program#build/}
        grep -qE "^${folder%/*}/(.*/)?$name(\.c|\.cu|\.cpp|/.*)\$" "$scratch/files" || wrong "$page: no source of $program"
    done
    set +f
done

# ----- functions -----

{ grep -rhoE '[a-z_][a-z0-9_]*' include lib train programs cmake examples; ls tests | sed 's/\..*//'; } | sort -u > "$scratch/words"
for page in $pages; do
    named '\b(gf|glofnd)_[a-z0-9_]*[a-z0-9]\b' $page
    [ $page != docs/method.md ] || named '`[a-z]+_[a-z_]+`' $page | tr -d '`'
done | sort -u | while read -r name; do
    grep -qx -- "$name" "$scratch/words" || wrong "$(grep -lw -- "$name" $pages | head -n 1): $name is nowhere in the sources"
done

# ----- verbs and flags -----

listed() { "$glofnd" "$@" | sed -n 's/^  \([a-z]*\) .*/\1/p'; }
verbs=$(listed --help)
flags_of() { { "$glofnd" "$@" --help-all; echo "--help --help-all"; } | grep -oE -- '--[a-zA-Z][a-zA-Z0-9_-]*' | tr _ - | sort -u; }
for verb in $verbs; do flags_of $verb > "$scratch/flags.$verb"; done
for what in $(listed eval --help); do flags_of eval "$what" > "$scratch/flags.eval.$what"; done
cat "$scratch"/flags.* | sort -u > "$known"
[ "$(wc -l < "$known")" -gt 150 ] || fail "the helps name too few flags: $(cat "$known")"
# Flags of other programs: those of ours that stand in their sources, and of the system's.
grep -rhoIE -- '--[a-z][a-z0-9-]*' tools bench tests python Makefile | sort -u >> "$known"
printf '%s\n' --help --key --KEY --logdir >> "$known"
# Of results that the tag experiments-2026-11 repeats.
printf '%s\n' --attract-alpha --flag-probability --flag-seed --require-label >> "$known"
launchers='pkg-config|mpirun|srun|sbatch|docker run|#SBATCH|`--(mca|map-by|allow-run-as-root)'           # lines with flags of these

for page in $pages; do
    flags=$(grep -vE "$launchers" $page | grep -oE '(^|[^A-Za-z0-9-])--[a-zA-Z][a-zA-Z0-9_-]*' |
        sed 's/^[^-]*//; s/[-_]*$//' | tr _ -)
    for flag in $flags; do
        grep -qx -- "$flag" "$known" || wrong "$page: no program takes $flag"
    done
    # Lines of commands: continued lines joined; from `glofnd VERB` to a comment, a pipe or the next command.
    sed -e ':a' -e '/\\$/N; s/\\\n//; ta' $page | grep -oE '(^|[ /`])glofnd [a-z]+( [^#|;`]*)?' |
        sed -e 's/^[^g]*glofnd //' -e 's/--eval "[^"]*"/--eval/g' > "$scratch/commands"      # --eval "WHAT FLAGS"
    while read -r verb what rest; do
        if ! echo "$verbs" | grep -qx -- "$verb"; then          # prose, or a command?
            grep -q "glofnd $verb [A-Z[-]" $page && wrong "$page: no glofnd $verb"
            continue
        fi
        flags=$scratch/flags.$verb
        [ "$verb" = eval ] && [ -e "$flags.$what" ] && flags=$flags.$what
        for flag in $(printf '%s' "$what $rest" | grep -oE -- '(^| |\[)--[a-zA-Z][a-zA-Z0-9_-]*' | tr -d ' [' | tr _ -); do
            grep -qx -- "$flag" "$flags" || wrong "$page: glofnd $verb $what takes no $flag"
        done
    done < "$scratch/commands"
done

# ----- navigation -----

# Every entry of mkdocs.yml has a page, written or generated, and every page of docs/ has an entry. This needs no MkDocs.
if command -v python3 > /dev/null; then
    python3 tools/docs_pages.py . "$glofnd" "$scratch/site" > "$scratch/pages" 2>&1 || while read -r line; do wrong "$line"; done < "$scratch/pages"
fi

sort -u "$bad" >&2
[ ! -s "$bad" ] || { cd "$scratch" && fail "$(sort -u "$bad" | wc -l) names in the documents are those of nothing"; }
echo "$(echo $pages | wc -w) pages: all they name is there"
