# All output of the program goes through gf_print (lib/util/print.h), which shows control characters in names, captions,
# labels and values instead of sending them to the terminal. Listed here are files that write files by stdio, and own texts.
source=$2
cd "$source" || exit 1
writers='print\.c|train/data/export\.c|lib/discover/discover_files\.c|lib/discover/output_files\.c'
writers="$writers|train/report/explorer(_chunks)?\.c|programs/cmd_shell\.c"
writers="^(lib/util/$writers):|^($writers):"
calls='(^|[^a-z_])(f?printf|v?dprintf|vf?printf|puts|fputs|putchar|fputc|putc|perror|psignal|fwrite)\('
left=$(grep -rnE "$calls|[^_]write\((1|2|STD)" lib train programs --include='*.c' --include='*.h' --include='*.cu' |
    grep -vE "$writers" |
    grep -vE '^lib/io/|^train/run/tfevents' |                                                                   # the writers of files
    grep -vE '^programs/main\.c:[0-9]+:.*write\(STDERR_FILENO, first_message' |              # from a signal handler: own text
    grep -vE ':[0-9]+: *(/\*|\*|//)')
[ -z "$left" ] || { echo "printed without gf_print:"; echo "$left"; exit 1; }

left=$(grep -rnE '(fprintf|fputs|fputc|fwrite)\([^;]*stderr' lib train programs --include='*.[ch]' | grep -vE '^lib/util/print\.c:')
[ -z "$left" ] || { echo "a message without gf_print:"; echo "$left"; exit 1; }

# A format is own text: never a variable.
left=$(grep -rnE 'gf_print\((stdout|stderr|out), [^"]' lib train programs --include='*.c' | grep -vE 'live \? "|EVAL_NOT_LEARNED')
[ -z "$left" ] || { echo "a format that is no literal:"; echo "$left"; exit 1; }
echo passed
