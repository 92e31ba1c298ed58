# Texts that a user can meet are plain English (tools/check_english.py): README, documents, messages, help, headers, docstrings. Sentences of
# documents have at most 30 words. README.md has at most 150 lines of 100 columns and names the two commands that try the project. README.md and
# docs/ have at most 250 KB, so that they can be read.
. "$2/tests/sh/common.inc"
needs_tools python3
cd "$source" || exit 1
pages="README.md CONTRIBUTING.md ARCHITECTURE.md FORMATS.md ROADMAP.md SECURITY.md $(find docs -name '*.md')"
# shellcheck disable=SC2046,SC2086  # lists of files without spaces
python3 tools/check_english.py $pages $(find programs train lib -name '*.c' -o -name '*.cu') $(find include -name '*.h') \
    $(find python/glofnd -name '*.py') > "$scratch/bad" || fail "$(wc -l < "$scratch/bad") places: $(cat "$scratch/bad")"
# shellcheck disable=SC2086
size=$(cat README.md $(find docs -name '*.md') | wc -c)
[ "$size" -le 250000 ] || fail "README.md and docs/ have $size bytes; at most 250000"
[ "$(wc -l < README.md)" -le 150 ] || fail "README.md has more than 150 lines"
python3 -c 'import sys; sys.exit(any(len(line) > 101 for line in open("README.md", encoding="utf-8")))' || fail "README.md has a line of more than 100 columns"
for command in 'make demo' 'make test'; do grep -q "$command" README.md || fail "README.md does not name $command"; done

# The checker finds what it must: one bad text of each kind of file.
cd "$scratch" || exit 1
printf 'A wrong flag is refused.\n' > phrase.md
printf 'One %s end.\n' "$(yes word | head -n 31 | tr '\n' ' ')" > long.md
printf '/* beside */ const char *text = "so "\n    "many";\n' > text.c
printf '/* A list\n * of so many. */\n' > comment.h
printf 'def f():\n    """The row of the one."""\n' > docstring.py
for file in phrase.md long.md text.c comment.h docstring.py; do
    python3 "$source/tools/check_english.py" $file > out && fail "$file has no fault"
    [ "$(wc -l < out)" -eq 1 ] || fail "$file has one fault: $(cat out)"
done
printf 'A good page. `is refused`\n\n    code is refused\n\n| is refused |\n' > good.md
python3 "$source/tools/check_english.py" good.md > out || fail "a good page: $(cat out)"
exit 0
