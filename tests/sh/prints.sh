# All output of the program goes through gf_print (src/util/strings/print.h), which shows control characters in names, captions,
# labels and values instead of sending them to the terminal. Listed here are files that write files by stdio, and own texts.
source=$2
cd "$source" || exit 1
writers='print\.c|src/data/export\.c|src/discover/discover_files\.c|src/discover/decide/npz_file\.c'
writers="$writers|src/report/explorer/explorer(_chunks)?\.c|cli/shell/[a-z_]*\.c"
writers="^(src/util/strings/$writers):|^($writers):"
calls='(^|[^a-z_])(f?printf|v?dprintf|vf?printf|puts|fputs|putchar|fputc|putc|perror|psignal|fwrite)\('
left=$(grep -rnE "$calls|[^_]write\((1|2|STD)" src cli --include='*.c' --include='*.h' --include='*.cu' |
    grep -vE "$writers" |
    grep -vE '^src/io/' |                                                                   # the writers of files
    grep -vE '^cli/interrupt\.c:[0-9]+:.*write\(STDERR_FILENO, first_message' |              # from a signal handler: own text
    grep -vE '^cli/verbs/cmd_watch\.c:[0-9]+:.*fwrite\(line, .*has own colours' |
    grep -vE ':[0-9]+: *(/\*|\*|//)')
[ -z "$left" ] || { echo "printed without gf_print:"; echo "$left"; exit 1; }

left=$(grep -rnE '(fprintf|fputs|fputc|fwrite)\([^;]*stderr' src cli --include='*.[ch]' | grep -vE '^src/util/strings/print\.c:')
[ -z "$left" ] || { echo "a message without gf_print:"; echo "$left"; exit 1; }

# A format is own text: never a variable.
left=$(grep -rnE 'gf_print\((stdout|stderr|out), [^"]' src cli --include='*.c' | grep -vE 'live \? "|EVAL_NOT_LEARNED')
[ -z "$left" ] || { echo "a format that is no literal:"; echo "$left"; exit 1; }
echo passed
