# Waits with a limit are on the monotonic clock: lib/util/threads.c has the only one.
source=$2
waits='cond_timedwait|mutex_timedlock|sem_timedwait|rwlock_timed|mq_timed|TIMER_ABSTIME'
left=$(grep -rnE "$waits" "$source/src" "$source/cli" --include='*.[ch]' |
    grep -v '^[^:]*/src/util/threads\.c:')
[ -z "$left" ] || { echo "a timed wait outside of lib/util/threads.c:"; echo "$left"; exit 1; }
