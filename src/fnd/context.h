/* context.h - the inside of glofnd_ctx: options, backend, workspace, last error. */
#ifndef GF_FND_CONTEXT_H
#define GF_FND_CONTEXT_H

#include "base/backend.h"
#include "base/status.h"

struct glofnd_ctx {
    glofnd_options o;
    gf_error err;
    const gf_backend *backend;
    int threads;                                    /* resolved: >= 1 */
    int (*reduce)(void *user, double *x, int n);    /* sums over ranks; NULL on one rank */
    void *reduce_user;
    struct gf_workspace *ws;                        /* see workspace.h; grows in glofnd_ctx_reserve */
};

#endif
