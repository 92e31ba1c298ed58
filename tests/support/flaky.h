/* flaky.h - loaders over data with chosen unreadable samples: drawn shapes, and a format around them that fails to read. */
#pragma once

#include <stdatomic.h>

#include "loader/loader.h"

enum { N = 61, BATCH = 8, STEPS = N / BATCH, MANY = 2 * STEPS + 3, SIZE = 16, IMAGE = SIZE * SIZE * 3, SEED = 9 };
enum { SOUND, CORRUPT, BROKEN_DISK, NO_MEMORY };

extern struct flaky {
    char state[N]; /* of the samples */
    int nap;       /* microseconds a read takes longer */
    atomic_int reads;
} flaky;
extern gf_dataset *flaky_shapes; /* all readable */

/* Group setup and teardown; setup of a test: all sound. */
int flaky_open(void **state);
int flaky_close(void **state);
int flaky_heal(void **state);

gf_loader_spec flaky_spec(int workers);
gf_loader *flaky_loader(const gf_loader_spec *spec);
gf_batch flaky_next(gf_loader *l);
void flaky_seek(gf_loader *l, uint32_t epoch, int64_t step);
void flaky_says(const gf_error *err, const char *word);
/* The next batch is an error of this status whose text has `word`. */
void flaky_fails(gf_loader *l, glofnd_status status, const char *word);
/* Everything a batch says, but for its times; of the first `count` batches. */
uint64_t flaky_hash(const gf_batch *b);
void flaky_hashes(const gf_loader_spec *spec, uint64_t *hash, int count);
void flaky_check_views(const gf_batch *b, int64_t item, int views);

typedef struct flaky_reports { /* reports of a loader about unreadable samples: gf_loader_spec.unreadable, .user */
    int64_t id[1000];
    int n;
} flaky_reports;
void flaky_report(void *user, int64_t i, const char *message);
