# Help, version, completion and manual pages: `glofnd help VERB WHAT`, presets by name, all verbs and flags in each script.
. "$2/tests/sh/common.inc"
needs

# Help and version under the names that people try.
"$glofnd" eval knn --help > want
call "$glofnd" help eval knn
[ "$code" = 0 ] && cmp -s out want || fail "help eval knn is not eval knn --help"
for word in --version -V version; do
    call "$glofnd" $word
    [ "$code" = 0 ] && grep -q '^glofnd [0-9]' out || fail "$word prints no version"
done

# Every verb and flag is in the completion of each shell; the scripts parse where the shell is here.
"$glofnd" completion bash > bash || fail "no bash completion"
"$glofnd" completion zsh > zsh || fail "no zsh completion"
"$glofnd" completion fish > fish || fail "no fish completion"
for text in pretrain completion zeroshot; do
    for shell in bash zsh fish; do grep -q -- "$text" $shell || fail "$text is missing in the completion of $shell"; done
done
for key in detector lambda_init resume; do
    grep -q -- "--$key" bash && grep -q -- "--$key" zsh && grep -q -- "-l $key" fish || fail "$key is missing in a completion"
done
for shell in bash zsh fish; do
    if command -v $shell > /dev/null; then $shell -n $shell || fail "$shell does not parse its completion"; fi
done
if command -v bash > /dev/null; then
    cat > try << 'END'
. ./bash
complete_at() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _glofnd; echo "${COMPREPLY[*]}"; }
complete_at glofnd pre
complete_at glofnd eval kn
complete_at glofnd pretrain --detector glo
complete_at glofnd eval knn --untr
complete_at glofnd pretrain --config cifar100-sogclr-ifn
complete_at glofnd pretrain --config mine.c
END
    touch mine.cfg
    PATH=$(dirname "$glofnd"):$PATH bash try > out 2>&1
    printf 'pretrain\nknn\nglofnd\n--untrained\ncifar100-sogclr-ifnd\nmine.cfg\n' > want
    cmp -s out want || { cat out; fail "bash completes something else"; }
fi
call "$glofnd" completion tcsh
[ "$code" = 2 ] && grep -q 'bash, zsh, fish' err || fail "an unknown shell is not refused"

# Manual pages: one per verb, without a complaint of the formatter.
"$glofnd" man pages || fail "no manual pages"
for verb in $("$glofnd" --help | sed -n 's/^  \([a-z]*\) .*/\1/p'); do
    [ -s pages/glofnd-$verb.1 ] || fail "no page of $verb"
done
grep -q 'detector' pages/glofnd-pretrain.1 || fail "the page of pretrain has no keys"
if command -v groff > /dev/null; then
    for page in pages/*.1; do
        groff -man -Tascii -ww "$page" > /dev/null 2> err
        [ -s err ] && fail "the formatter complains about $page"
    done
fi

# Presets by name.
call "$glofnd" pretrain --config cifar100-sogclr-glofn --data shapes:n=64 --out run
[ "$code" = 1 ] && grep -q 'did you mean cifar100-sogclr-glofnd?' err || fail "a misspelt preset"
call "$glofnd" pretrain --config nothing-like-it --data shapes:n=64 --out run
[ "$code" = 1 ] && grep -q 'presets: .*cifar10-sogclr, .*, \.\.\.$' err || fail "presets are not listed"
call "$glofnd" sweep --config demo --seeds 1,2 --out runs --dry-run
[ "$code" = 0 ] || fail "the preset demo is not found"
# In a build folder anywhere: a link beside the program.
mkdir -p far/away && cp "$glofnd" far/away/glofnd && ln -s "$source/configs" far/away/configs
call far/away/glofnd completion presets
[ "$(grep -cx demo out)" = 1 ] || fail "presets of a build folder outside of the sources"
[ -e "$build/configs/demo.cfg" ] || fail "the build folder has no link to the presets"
