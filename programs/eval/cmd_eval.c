/* cmd_eval.c - glofnd eval: how good the encoder of a run is. Results are printed and added to RUN/eval.jsonl, which reports
 * read. */
#include "programs/eval/eval.h"

static const cli_verb *const verbs[] = {&eval_linear,    &eval_transfer,  &eval_knn,      &eval_fn,
                                        &eval_threshold, &eval_retrieval, &eval_zeroshot, NULL};

const cli_verb cmd_eval = {.name = "eval",
                           .summary = "how good the encoder of a run is",
                           .usage = "glofnd eval WHAT RUN ...",
                           .verbs = verbs};
