/* unit_thread_pool.c - the pool of threads: every task once, scratch of its own for every thread, calls from several threads at
 * once, calls inside of tasks, and a forked child.
 */
#include "support/test.h"

#include "util/parallel.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define TASKS 1000
#define THREADS 5

typedef struct tally {
    _Atomic int ran[TASKS];
    _Atomic int busy[THREADS]; /* a task is using the scratch of this thread */
    _Atomic int bad;
} tally;

static void count(void *arg, int64_t task, int thread) {
    tally *t = arg;
    if (thread < 0 || thread >= THREADS || task < 0 || task >= TASKS) {
        atomic_store(&t->bad, 1);
        return;
    }
    if (atomic_exchange(&t->busy[thread], 1)) atomic_store(&t->bad, 2);
    atomic_fetch_add(&t->ran[task], 1);
    if (task % 100 == 0) usleep(50); /* workers sleep and wake in all orders */
    atomic_store(&t->busy[thread], 0);
}

/* 0: each of the first n tasks ran once. */
static int check(int threads, int64_t n) {
    tally t;
    memset(&t, 0, sizeof t);
    gf_pool_run(threads, n, count, &t);
    for (int i = 0; i < TASKS; i++)
        if (atomic_load(&t.ran[i]) != (i < n)) return 10;
    return atomic_load(&t.bad);
}

TEST(every_task_runs_once) {
    for (int threads = 1; threads <= THREADS; threads++)
        for (int64_t n = 0; n <= TASKS; n = n < 8 ? n + 1 : n * 5) assert_int_equal(check(threads, n > TASKS ? TASKS : n), 0);
}

TEST(many_short_calls) {
    for (int i = 0; i < 3000; i++) assert_int_equal(check(1 + i % THREADS, i % 7), 0);
}

static void *call_often(void *arg) {
    for (int i = 0; i < 200; i++)
        if (check(1 + i % THREADS, 20 + i % 30) != 0) atomic_store((_Atomic int *)arg, 1);
    return NULL;
}

TEST(several_callers) {
    pthread_t id[4];
    _Atomic int bad = 0;
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&id[i], NULL, call_often, &bad), 0);
    for (int i = 0; i < 4; i++) pthread_join(id[i], NULL);
    assert_int_equal(atomic_load(&bad), 0);
}

static void call_inside(void *arg, int64_t task, int thread) {
    (void)task, (void)thread;
    if (check(THREADS, 30) != 0) atomic_store((_Atomic int *)arg, 1);
}

TEST(calls_inside_of_tasks) {
    _Atomic int bad = 0;
    gf_pool_run(THREADS, 40, call_inside, &bad);
    assert_int_equal(atomic_load(&bad), 0);
}

/* Exit code of a child that uses the pool; a pool that waits for the parent's threads would hang: the alarm ends it. */
static int child_uses_pool(void) {
    int status = -1;
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) {
        alarm(60);
        exit(check(THREADS, TASKS)); /* with the destructor of the pool */
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid) return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* The thread sanitizer cannot start threads after a fork. */
static void needs_forks(void) {
#ifdef __SANITIZE_THREAD__
    skip();
#endif
}

TEST(a_forked_child_has_a_pool) {
    needs_forks();
    assert_int_equal(check(THREADS, TASKS), 0);
    for (int i = 0; i < 5; i++) assert_int_equal(child_uses_pool(), 0);
    assert_int_equal(check(THREADS, TASKS), 0);
}

TEST(a_fork_beside_running_calls) {
    pthread_t id;
    _Atomic int bad = 0;
    needs_forks();
    assert_int_equal(pthread_create(&id, NULL, call_often, &bad), 0);
    for (int i = 0; i < 5; i++) assert_int_equal(child_uses_pool(), 0);
    pthread_join(id, NULL);
    assert_int_equal(atomic_load(&bad), 0);
}

/* gf_parallel() of either build: OpenMP's library alone would wait for the parent's threads. */
TEST(a_forked_child_works_in_parallel) {
    static tally t;
    int status = -1;
    needs_forks();
    gf_parallel(THREADS, TASKS, count, &t);
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) {
        alarm(60);
        memset(&t, 0, sizeof t);
        gf_parallel(THREADS, TASKS, count, &t);
        int bad = atomic_load(&t.bad);
        for (int i = 0; i < TASKS; i++) bad |= atomic_load(&t.ran[i]) != 1;
        exit(bad);
    }
    assert_true(pid > 0 && waitpid(pid, &status, 0) == pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_int_equal(atomic_load(&t.bad), 0);
}
