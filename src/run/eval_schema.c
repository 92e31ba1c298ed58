/* eval_schema.c - see eval_schema.h. Events in the order of tables; keys in the order in which they are written. */
#include "run/eval_schema.h"

#include <string.h>

#define NAME(event, key) \
    { event, key, GF_EVAL_NAME, 0, 1.0, 0, 0, 0 }
#define SETTING(event, key) \
    { event, key, GF_EVAL_SETTING, 0, 1.0, 0, 0, 0 }
#define SETTING_UNLESS(event, key, condition) \
    { event, key, GF_EVAL_SETTING, 0, 1.0, 0, 0, condition }
#define RECORDED(event, key) \
    { event, key, GF_EVAL_FIGURE, 0, 1.0, 0, 0, 0 }
#define TIME(event, key) \
    { event, key, GF_EVAL_TIME, 0, 1.0, 0, 0, 0 }
#define FIGURE(event, key, title, factor, better, detail) \
    { event, key, GF_EVAL_FIGURE, title, factor, better, detail, 0 }
#define PERCENT(event, key, title) FIGURE(event, key, title, 100.0, 1, 0)
#define PERCENT_DETAIL(event, key, title) FIGURE(event, key, title, 100.0, 1, 1)

#define EVERY "" /* event of the keys that all records have */

static const gf_eval_key table[] = {
    NAME(EVERY, "event"),
    NAME(EVERY, "protocol"),
    SETTING(EVERY, "data"),
    SETTING(EVERY, "test"),
    NAME(EVERY, "untrained"),

    NAME("linear", "fraction"),
    SETTING("linear", "seed"),
    SETTING("linear", "augment"),
    SETTING("linear", "validation"),
    RECORDED("linear", "train_samples"), /* may lack unreadable samples, which differ between held out parts */
    RECORDED("linear", "test_samples"),
    RECORDED("linear", "epochs"),
    RECORDED("linear", "epochs_run"),
    RECORDED("linear", "best_epoch"),
    PERCENT("linear", "top1", "top-1 %"),
    PERCENT_DETAIL("linear", "top5", "top-5 %"),
    RECORDED("linear", "last_top1"),
    TIME("linear", "time_s"),

    SETTING("linear_mean", "seed"),
    SETTING("linear_mean", "augment"),
    SETTING("linear_mean", "validation"),
    SETTING("linear_mean", "fractions"),
    PERCENT("linear_mean", "top1", "top-1 %"),
    PERCENT_DETAIL("linear_mean", "top5", "top-5 %"),

    NAME("knn", "k"),
    SETTING_UNLESS("knn", "temperature", "temperature=0"), /* equal votes: the protocol is knn-unweighted */
    RECORDED("knn", "train_samples"),
    RECORDED("knn", "test_samples"),
    PERCENT("knn", "top1", "top-1 %"),

    NAME("transfer", "dataset"),
    NAME("transfer", "metric"),
    SETTING("transfer", "seed"),
    RECORDED("transfer", "train_samples"),
    RECORDED("transfer", "test_samples"),
    SETTING("transfer", "classes"),
    SETTING("transfer", "l2"),
    RECORDED("transfer", "scores"),
    RECORDED("transfer", "unfinished"),
    PERCENT("transfer", "score", "%"),
    RECORDED("transfer", "best_l2"),
    PERCENT_DETAIL("transfer", "validation_score", "% (l2 by validation)"),
    RECORDED("transfer", "validation_l2"),
    TIME("transfer", "time_s"),

    NAME("transfer_mean", "metric"),
    SETTING("transfer_mean", "seed"),
    SETTING("transfer_mean", "datasets"),
    SETTING("transfer_mean", "names"),
    SETTING("transfer_mean", "sets"),
    PERCENT("transfer_mean", "score", "%"),
    PERCENT_DETAIL("transfer_mean", "validation_score", "% (l2 by validation)"),

    NAME("retrieval", "dataset"),
    SETTING("retrieval", "images"),
    SETTING("retrieval", "captions"),
    PERCENT("retrieval", "ir1", "IR@1 %"),
    PERCENT_DETAIL("retrieval", "ir5", "IR@5 %"),
    PERCENT_DETAIL("retrieval", "ir10", "IR@10 %"),
    PERCENT("retrieval", "ir_mean", "IR average %"),
    PERCENT("retrieval", "tr1", "TR@1 %"),
    PERCENT_DETAIL("retrieval", "tr5", "TR@5 %"),
    PERCENT_DETAIL("retrieval", "tr10", "TR@10 %"),
    PERCENT("retrieval", "tr_mean", "TR average %"),
    PERCENT("retrieval", "mean", "average %"),

    NAME("zeroshot", "dataset"),
    NAME("zeroshot", "metric"), /* there is a figure for each */
    SETTING("zeroshot", "samples"),
    SETTING("zeroshot", "classes"),
    SETTING("zeroshot", "classes_sum"),
    SETTING("zeroshot", "templates_sum"),
    RECORDED("zeroshot", "score"),
    PERCENT("zeroshot", "top1", "top-1 %"),
    PERCENT_DETAIL("zeroshot", "top5", "top-5 %"),
    PERCENT_DETAIL("zeroshot", "mean_per_class", "mean per class %"),

    SETTING("zeroshot_mean", "datasets"),
    SETTING("zeroshot_mean", "names"),
    SETTING("zeroshot_mean", "sets"),
    PERCENT("zeroshot_mean", "score", "%"),
    RECORDED("zeroshot_mean", "retrieval"),
    RECORDED("zeroshot_mean", "imagenet"),

    /* The last epoch of log.jsonl, scaled by log_schema.h; the settings are those of config.cfg. */
    SETTING(GF_EVAL_EPOCH, "batch"),
    SETTING(GF_EVAL_EPOCH, "data"),
    SETTING(GF_EVAL_EPOCH, "task"),
    FIGURE(GF_EVAL_EPOCH, "precision", "precision %", 1.0, 1, 0),
    FIGURE(GF_EVAL_EPOCH, "recall", "recall %", 1.0, 1, 0),
    FIGURE(GF_EVAL_EPOCH, "f1", "F1 %", 1.0, 1, 0),
    FIGURE(GF_EVAL_EPOCH, "flagged", "flagged %", 1.0, 0, 1),
    FIGURE(GF_EVAL_EPOCH, "loss", "loss", 1.0, 0, 1),

    NAME("fn", "pairs"),
    NAME("fn", "detector"),
    SETTING_UNLESS("fn", "alpha", "detector=glofnd"), /* learned thresholds have no alpha */
    NAME("fn", "truth"),
    SETTING("fn", "batch"),
    SETTING("fn", "samples"),
    SETTING_UNLESS("fn", "anchors", "samples"), /* of these, the readable ones */
    RECORDED("fn", "flagged"),
    PERCENT_DETAIL("fn", "precision", "precision %"),
    PERCENT_DETAIL("fn", "recall", "recall %"),
    PERCENT_DETAIL("fn", "f1", "F1 %"),
    PERCENT_DETAIL("fn", "pooled_precision", "pooled precision %"),
    PERCENT_DETAIL("fn", "pooled_recall", "pooled recall %"),
    PERCENT_DETAIL("fn", "pooled_f1", "pooled F1 %"),

    SETTING("threshold", "alpha"),
    SETTING("threshold", "anchors"),
    RECORDED("threshold", "learned"),
    SETTING("threshold", "samples"),
    RECORDED("threshold", "optimum_mean"),
    RECORDED("threshold", "optimum_std"),
    RECORDED("threshold", "lambda_mean"),
    RECORDED("threshold", "lambda_std"),
    FIGURE("threshold", "mae", "MAE", 1.0, -1, 0),
    FIGURE("threshold", "rmse", "RMSE", 1.0, -1, 0),
    RECORDED("threshold", "bias"),
    SETTING("threshold", "fnc_batch"),
    SETTING("threshold", "fnc_draws"),
    RECORDED("threshold", "fnc_mae"),
    RECORDED("threshold", "fnc_rmse"),
    RECORDED("threshold", "fnc_bias"),

    RECORDED(GF_EVAL_TRAINED, "step"),
};

enum { ROWS = sizeof table / sizeof *table };

const gf_eval_key *gf_eval_keys(const char *event, int *count) {
    int first = 0;
    *count = 0;
    while (first < ROWS && strcmp(table[first].event, event) != 0) first++;
    while (first + *count < ROWS && strcmp(table[first + *count].event, event) == 0) ++*count;
    return *count ? &table[first] : NULL;
}

static const gf_eval_key *find_row(const char *event, const char *key) {
    for (int i = 0; i < ROWS; i++)
        if (strcmp(table[i].key, key) == 0 && (!event || strcmp(table[i].event, event) == 0)) return &table[i];
    return NULL;
}

const gf_eval_key *gf_eval_key_find(const char *event, const char *key) {
    const gf_eval_key *own = find_row(event, key);
    int rows;
    return own || !gf_eval_keys(event, &rows) ? own : find_row(EVERY, key);
}

const gf_eval_key *gf_eval_key_any(const char *event, const char *key) {
    const gf_eval_key *own = gf_eval_key_find(event, key);
    return own ? own : find_row(NULL, key);
}

int gf_eval_rank(const char *event) {
    int i = 0;
    while (i < ROWS && strcmp(table[i].event, event) != 0) i++;
    return i;
}

int gf_eval_has_word(const char *word) {
    /* Words of protocols, pairs, detectors and of names as gf_eval_name and gf_settings_describe write them. */
    static const char others[] = "last epoch mean k held out unweighted raw not recorded clip paper-centre-validated "
                                 "official-centre-validated paper-validated official-validated -cached own-templates several "
                                 "views plain batches dataset image-text text-image by captions glofnd exact single fnc";
    for (int i = 0; i < ROWS; i++) {
        if (strcasestr(table[i].event, word) || (table[i].title && strcasestr(table[i].title, word))) return 1;
        if (table[i].role == GF_EVAL_SETTING && strcasestr(table[i].key, word)) return 1;
    }
    return strcasestr(others, word) != NULL;
}
