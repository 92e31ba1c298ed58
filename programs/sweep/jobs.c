/* jobs.c - see jobs.h. */
#include "programs/sweep/jobs.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* In the child, which ends with this process, however that ends; its checkpoint is kept. */
static void exec_job(const job *j, int parallel, pid_t parent) {
    const int in = open("/dev/null", O_RDONLY), out = open(j->log, O_WRONLY | O_CREAT | O_APPEND, 0666);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent || in < 0 || out < 0) _exit(126);
    dup2(in, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    dup2(out, STDERR_FILENO);
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    if (parallel > 1) setenv("OMP_WAIT_POLICY", "passive", 0); /* waiting threads must not occupy the cores of other jobs */
    execv("/proc/self/exe", (char *const *)j->argv);
    _exit(127);
}

static int is_ready(const jobs *all, job *j) { return !all->ready || all->ready(all->user, j); }

static int start(const jobs *all, job *j) {
    const pid_t parent = getpid();
    fflush(NULL);
    j->pid = fork();
    if (j->pid == 0) exec_job(j, all->parallel, parent);
    j->state = j->pid < 0 ? JOB_FAILED : JOB_RUNNING;
    if (j->pid > 0 && all->started) all->started(all->user, j);
    return j->pid > 0;
}

/* 1: it has ended. */
static int poll_job(const jobs *all, job *j) {
    int status;
    const pid_t found = waitpid(j->pid, &status, WNOHANG);
    if (found == 0 || (found < 0 && errno == EINTR)) return 0;
    j->signal = found == j->pid && WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    const int code = found == j->pid && WIFEXITED(status) ? WEXITSTATUS(status) : 128;
    const int good = all->ended ? all->ended(all->user, j, code) : code == 0;
    j->state = good ? JOB_DONE : JOB_FAILED;
    return 1;
}

static void pause_briefly(void) { nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL); }

int jobs_run(jobs *all) {
    int running = 0, failed = 0, asked = 0;
    for (;;) {
        const int stop = all->stop && atomic_load(all->stop);
        for (int i = 0; i < all->count && running < all->parallel && !stop; i++)
            if (all->job[i].state == JOB_WAITING && is_ready(all, &all->job[i])) running += start(all, &all->job[i]);
        for (int i = 0; i < all->count; i++) {
            job *j = &all->job[i];
            if (j->state != JOB_RUNNING) continue;
            if (stop && !asked) kill(j->pid, SIGTERM);
            running -= poll_job(all, j);
        }
        asked |= stop;
        if (all->tick) all->tick(all->user);
        int waiting = 0;
        for (int i = 0; i < all->count; i++) waiting += all->job[i].state == JOB_WAITING;
        if (!running && (stop || !waiting)) break;
        pause_briefly();
    }
    for (int i = 0; i < all->count; i++) failed += all->job[i].state == JOB_FAILED;
    return failed;
}
