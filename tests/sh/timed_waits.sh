# Waits with a limit are on the monotonic clock: lib/util/parallel.c has the only one.
source=$2
waits='cond_timedwait|mutex_timedlock|sem_timedwait|rwlock_timed|mq_timed|TIMER_ABSTIME'
left=$(grep -rnE "$waits" "$source/lib" "$source/train" "$source/programs" --include='*.[ch]' |
    grep -v '^[^:]*/lib/util/parallel\.c:')
[ -z "$left" ] || { echo "a timed wait outside of lib/util/parallel.c:"; echo "$left"; exit 1; }
