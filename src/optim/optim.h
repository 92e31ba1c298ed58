/* optim.h - one optimizer over the parameters of a net, wherever they are: on the host by the loops of sgd.c, lars.c and adamw.c,
 * on a device by its backend.
 *
 *     TRY(gf_optim_create(err, backend, engine, &rule, params, count, &o));
 *     each step:  TRY(gf_optim_set(err, o, lr, step));  TRY(gf_optim_step(err, o));  TRY(gf_optim_norm(err, o, &norm));
 */
#ifndef GF_OPTIM_OPTIM_H
#define GF_OPTIM_OPTIM_H

#include "ifc/nn_ops.h"

typedef struct gf_optim gf_optim;

/* params are copied; the engine must outlive the optimizer. */
glofnd_status gf_optim_create(gf_error *err, const gf_nn_backend *backend, gf_nn_engine *engine, const gf_optim_rule *rule,
                              const gf_param *params, int count, gf_optim **out);
void gf_optim_free(gf_optim *o);
/* Learning rate and number (1, 2, ...) of the next step. */
glofnd_status gf_optim_set(gf_error *err, gf_optim *o, double lr, int64_t step);
/* Moves the weights, unless the gradient is not finite. */
glofnd_status gf_optim_step(gf_error *err, gf_optim *o);
/* Norm of the whole gradient at the last step: not finite where the weights were left as they are. */
glofnd_status gf_optim_norm(gf_error *err, gf_optim *o, double *norm);

#endif
