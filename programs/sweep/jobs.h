/* jobs.h - commands of this program as processes, some at a time; each with its own log file. */
#pragma once

#include <limits.h>
#include <stdatomic.h>
#include <sys/types.h>

#define JOB_ARGUMENTS_MAX 192

typedef enum job_state { JOB_WAITING, JOB_RUNNING, JOB_DONE, JOB_FAILED } job_state;

typedef struct job {
    const char *argv[JOB_ARGUMENTS_MAX]; /* ends with NULL; argv[0] is the name of the program */
    char log[PATH_MAX];                  /* its output is appended here */
    void *user;
    job_state state; /* DONE from the start: left out */
    pid_t pid;
    int signal; /* that ended it; 0: none did */
} job;

typedef struct jobs {
    job *job;
    int count, parallel;
    const atomic_int *stop;           /* set: running jobs are asked to end (SIGTERM), waiting ones stay so */
    int (*ready)(void *user, job *j); /* 0: it cannot start yet, but will once others have gone on; NULL: all can */
    void (*started)(void *user, job *j);
    int (*ended)(void *user, job *j, int exit_code); /* 0: it counts as failed */
    void (*tick)(void *user);                        /* several times a second */
    void *user;
} jobs;

/* Runs all that wait, and returns when all have ended. The number that failed or could not be started. */
int jobs_run(jobs *all);
