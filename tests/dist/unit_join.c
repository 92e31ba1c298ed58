/* unit_join.c - ranks that never join are named, by those of their machine that have. Ranks are objects of this process here. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "support/test.h"

#include "dist/dist.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ----- a launcher ----- */

static char rank_text[16], ranks_text[16], here_text[16], job_text[64];

static char *variable(const char *name) {
    if (strcmp(name, "OMPI_COMM_WORLD_RANK") == 0) return rank_text;
    if (strcmp(name, "OMPI_COMM_WORLD_SIZE") == 0) return ranks_text;
    if (strcmp(name, "OMPI_COMM_WORLD_LOCAL_SIZE") == 0) return here_text;
    return strcmp(name, "PMIX_NAMESPACE") == 0 ? job_text : NULL;
}

typedef struct report {
    pthread_mutex_t lock;
    pthread_cond_t came;
    char text[700];
    int count;
} report;

static void lost(void *user, const char *text) {
    report *r = user;
    pthread_mutex_lock(&r->lock);
    snprintf(r->text, sizeof r->text, "%s", text);
    r->count++;
    pthread_cond_signal(&r->came);
    pthread_mutex_unlock(&r->lock);
}

static gf_join *begin(int rank, int ranks, int here, double seconds, report *r) {
    gf_error err = {""};
    gf_join *j = NULL;
    *r = (report){.lock = PTHREAD_MUTEX_INITIALIZER, .came = PTHREAD_COND_INITIALIZER};
    snprintf(rank_text, sizeof rank_text, "%d", rank);
    snprintf(ranks_text, sizeof ranks_text, "%d", ranks);
    snprintf(here_text, sizeof here_text, "%d", here);
    if (gf_join_begin(&err, seconds, variable, lost, r, &j) != GLOFND_OK) fail_msg("%s", err.text);
    return j;
}

static void await(report *r) {
    pthread_mutex_lock(&r->lock);
    while (!r->count) pthread_cond_wait(&r->came, &r->lock);
    pthread_mutex_unlock(&r->lock);
}

static void new_job(void) {
    static int number;
    snprintf(job_text, sizeof job_text, "unit-join-%ld-%d", (long)getpid(), number++);
}

/* ----- tests ----- */

TEST(ranks_that_never_start_are_named) {
    report first, third;
    new_job();
    gf_join *c = begin(2, 4, 4, 1000.0, &third), *a = begin(0, 4, 4, 0.05, &first);
    await(&first);
    assert_non_null(strstr(first.text, "ranks 1, 3 of 4 have not started"));
    gf_join_end(a);
    gf_join_end(c);
    assert_int_equal(third.count, 0);
}

TEST(a_rank_that_hangs_in_its_checks_is_named) {
    report first, second;
    new_job();
    gf_join *b = begin(1, 2, 2, 1000.0, &second), *a = begin(0, 2, 2, 0.2, &first);
    gf_join_reach(a, GF_JOIN_CHECKED);
    await(&first);
    assert_non_null(strstr(first.text, "rank 1 of 2 has not finished its checks"));
    gf_join_end(a);
    gf_join_end(b);
}

TEST(ranks_of_other_machines_are_not_accused) {
    report first;
    new_job();
    gf_join *a = begin(0, 4, 1, 0.05, &first);
    await(&first);
    assert_non_null(strstr(first.text, "not all ranks have started"));
    assert_non_null(strstr(first.text, "on this machine, 0 of 4 ranks have"));
    gf_join_end(a);
}

TEST(all_that_join_are_left_alone) {
    report first, second;
    new_job();
    for (int i = 0; i < 20; i++) {
        gf_join *a = begin(0, 2, 2, 1000.0, &first), *b = begin(1, 2, 2, 1000.0, &second);
        gf_join_reach(a, GF_JOIN_CHECKED);
        gf_join_reach(b, GF_JOIN_CHECKED);
        gf_join_end(a);
        gf_join_end(b);
        assert_int_equal(first.count + second.count, 0);
    }
    gf_join *none = begin(0, 2, 2, 0.0, &first); /* no limit */
    assert_null(none);
    gf_join_reach(none, GF_JOIN_CHECKED);
    gf_join_end(none);
}
