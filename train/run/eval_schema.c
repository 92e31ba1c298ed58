/* eval_schema.c - see eval_schema.h. */
#include "run/eval_schema.h"

#include <string.h>

/* clang-format off */
#define NAME(key)                      {key, GF_EVAL_NAME,    0, 1.0, 0, 0, 0}
#define SETTING(key)                   {key, GF_EVAL_SETTING, 0, 1.0, 0, 0, 0}
#define SETTING_UNLESS(key, condition) {key, GF_EVAL_SETTING, 0, 1.0, 0, 0, condition}
#define RECORDED(key)                  {key, GF_EVAL_FIGURE,  0, 1.0, 0, 0, 0}
#define TIME(key)                      {key, GF_EVAL_TIME,    0, 1.0, 0, 0, 0}
#define FIGURE(key, title, better, detail)         {key, GF_EVAL_FIGURE, title, 1.0, better, detail, 0}
#define PERCENT(key, title)            {key, GF_EVAL_FIGURE, title, 100.0, 1, 0, 0}
#define PERCENT_DETAIL(key, title)     {key, GF_EVAL_FIGURE, title, 100.0, 1, 1, 0}

/* Keys in the order in which they are written. */
static const gf_eval_key every[] = { /* records of all events */
    NAME("event"), NAME("protocol"), SETTING("data"), SETTING("test"), NAME("untrained"),
};
static const gf_eval_key linear[] = {
    NAME("fraction"), SETTING("seed"), SETTING("augment"), SETTING("validation"),
    RECORDED("train_samples"), RECORDED("test_samples"), /* may lack unreadable samples, which differ between held out parts */
    RECORDED("epochs"), RECORDED("epochs_run"), RECORDED("best_epoch"),
    PERCENT("top1", "top-1 %"), PERCENT_DETAIL("top5", "top-5 %"), PERCENT_DETAIL("last_top1", "top-1 % (last epoch)"),
    TIME("time_s"),
};
static const gf_eval_key linear_mean[] = {
    SETTING("seed"), SETTING("augment"), SETTING("validation"), SETTING("fractions"),
    PERCENT("top1", "top-1 %"), PERCENT_DETAIL("top5", "top-5 %"), PERCENT_DETAIL("last_top1", "top-1 % (last epoch)"),
};
static const gf_eval_key knn[] = {
    NAME("k"), SETTING_UNLESS("temperature", "temperature=0"), /* equal votes: the protocol is knn-unweighted */
    RECORDED("train_samples"), RECORDED("test_samples"), PERCENT("top1", "top-1 %"),
};
static const gf_eval_key transfer[] = {
    NAME("dataset"), NAME("metric"), SETTING("seed"), RECORDED("train_samples"), RECORDED("test_samples"),
    SETTING("classes"), SETTING("l2"), RECORDED("scores"), RECORDED("unfinished"),
    PERCENT("score", "%"), RECORDED("best_l2"),
    PERCENT_DETAIL("validation_score", "% (l2 by validation)"), RECORDED("validation_l2"), TIME("time_s"),
};
static const gf_eval_key transfer_mean[] = {
    NAME("metric"), SETTING("seed"), SETTING("datasets"), SETTING("names"), SETTING("sets"),
    PERCENT("score", "%"), PERCENT_DETAIL("validation_score", "% (l2 by validation)"),
};
static const gf_eval_key retrieval[] = {
    NAME("dataset"), SETTING("images"), SETTING("captions"),
    PERCENT("ir1", "IR@1 %"), PERCENT_DETAIL("ir5", "IR@5 %"), PERCENT_DETAIL("ir10", "IR@10 %"),
    PERCENT("ir_mean", "IR average %"),
    PERCENT("tr1", "TR@1 %"), PERCENT_DETAIL("tr5", "TR@5 %"), PERCENT_DETAIL("tr10", "TR@10 %"),
    PERCENT("tr_mean", "TR average %"), PERCENT("mean", "average %"),
};
static const gf_eval_key zeroshot[] = {
    NAME("dataset"), NAME("metric"), /* there is a figure for each metric */
    SETTING("samples"), SETTING("classes"), SETTING("classes_sum"), SETTING("templates_sum"), RECORDED("score"),
    PERCENT("top1", "top-1 %"), PERCENT_DETAIL("top5", "top-5 %"), PERCENT_DETAIL("mean_per_class", "mean per class %"),
    PERCENT_DETAIL("macro_f1", "macro F1 %"), PERCENT_DETAIL("worst_group", "worst group %"),
    PERCENT_DETAIL("worst_group5", "worst group top-5 %"),
};
static const gf_eval_key associations[] = {
    NAME("dataset"), SETTING("instances"), SETTING("images"),
    PERCENT("jaccard", "Jaccard %"), PERCENT_DETAIL("jaccard_few", "Jaccard of few %"),
    PERCENT_DETAIL("jaccard_all", "Jaccard of all %"),
};
static const gf_eval_key zeroshot_mean[] = {
    SETTING("datasets"), SETTING("names"), SETTING("sets"), PERCENT("score", "%"),
    PERCENT("retrieval", "of retrieval %"), PERCENT("imagenet", "of ImageNet and variants %"),
};
static const gf_eval_key epoch[] = { /* the last one of log.jsonl, scaled by log_schema.h; the settings are those of config.cfg */
    SETTING("batch"), SETTING("data"), SETTING("task"),
    FIGURE("pooled_precision", "precision %", 1, 0), FIGURE("pooled_recall", "recall %", 1, 0), FIGURE("pooled_f1", "F1 %", 1, 0),
    FIGURE("precision", "precision per anchor %", 1, 0), FIGURE("recall", "recall per anchor %", 1, 0),
    FIGURE("f1", "F1 per anchor %", 1, 0), /* as the paper counts */
    FIGURE("knn", "kNN while training %", 1, 1), FIGURE("flagged", "flagged %", 0, 1), FIGURE("loss", "loss", 0, 1),
};
static const gf_eval_key fn[] = {
    NAME("pairs"), NAME("detector"), SETTING_UNLESS("alpha", "detector=glofnd"), /* learned thresholds have no alpha */
    NAME("truth"), SETTING("batch"), SETTING("samples"), SETTING_UNLESS("anchors", "samples"), /* of these, the readable ones */
    RECORDED("flagged"), PERCENT_DETAIL("precision", "precision per anchor %"),
    PERCENT_DETAIL("recall", "recall per anchor %"), PERCENT_DETAIL("f1", "F1 per anchor %"),
    PERCENT_DETAIL("pooled_precision", "precision %"), PERCENT_DETAIL("pooled_recall", "recall %"),
    PERCENT_DETAIL("pooled_f1", "F1 %"),
};
static const gf_eval_key threshold[] = {
    SETTING("alpha"), SETTING("anchors"), RECORDED("learned"), SETTING("samples"),
    RECORDED("optimum_mean"), RECORDED("optimum_std"), RECORDED("lambda_mean"), RECORDED("lambda_std"),
    FIGURE("mae", "MAE", -1, 0), FIGURE("rmse", "RMSE", -1, 0), RECORDED("bias"), SETTING("fnc_batch"), SETTING("fnc_draws"),
    RECORDED("fnc_mae"), RECORDED("fnc_rmse"), RECORDED("fnc_bias"),
    SETTING("draws"), RECORDED("floor_mae"), RECORDED("noise"), RECORDED("spread"), /* of several draws of views */
    FIGURE("one_mae", "MAE against one draw", -1, 1), RECORDED("one_rmse"),
};
static const gf_eval_key trained[] = {RECORDED("step")};

#define EVENT(name) {#name, name, sizeof name / sizeof *name}
static const struct {
    const char *name;
    const gf_eval_key *key;
    int count;
} events[] = { /* in the order of tables */
    EVENT(linear), EVENT(linear_mean), EVENT(knn), EVENT(transfer), EVENT(transfer_mean), EVENT(retrieval),
    EVENT(zeroshot), EVENT(associations),
    EVENT(zeroshot_mean), EVENT(epoch), EVENT(fn), EVENT(threshold), EVENT(trained), EVENT(every),
};
/* clang-format on */

enum { EVENTS = sizeof events / sizeof *events };

int gf_eval_rank(const char *event) {
    int i = 0;
    while (i < EVENTS - 1 && strcmp(events[i].name, event) != 0) i++; /* the last one is no event */
    return i;
}

const gf_eval_key *gf_eval_keys(const char *event, int *count) {
    const int i = gf_eval_rank(event);
    *count = i < EVENTS - 1 ? events[i].count : 0;
    return *count ? events[i].key : NULL;
}

static const gf_eval_key *find_key(int event, const char *key) {
    for (int i = 0; i < events[event].count; i++)
        if (strcmp(events[event].key[i].key, key) == 0) return &events[event].key[i];
    return NULL;
}

const gf_eval_key *gf_eval_key_find(const char *event, const char *key) {
    const int e = gf_eval_rank(event);
    const gf_eval_key *own = e < EVENTS - 1 ? find_key(e, key) : NULL;
    return own || e == EVENTS - 1 ? own : find_key(EVENTS - 1, key);
}

const gf_eval_key *gf_eval_key_any(const char *event, const char *key) {
    const gf_eval_key *found = gf_eval_key_find(event, key);
    if (!found) found = find_key(EVENTS - 1, key);
    for (int e = 0; e < EVENTS - 1 && !found; e++) found = find_key(e, key);
    return found;
}

static int has_word(const gf_eval_key *k, const char *word) {
    return (k->title && strcasestr(k->title, word)) || (k->role == GF_EVAL_SETTING && strcasestr(k->key, word));
}

int gf_eval_has_word(const char *word) {
    /* Words of protocols, pairs, detectors and of names as gf_eval_name and gf_settings_describe write them. */
    static const char others[] = "last epoch mean k held out unweighted raw not recorded clip paper-centre-validated "
                                 "official-centre-validated paper-validated official-validated -cached own-templates several "
                                 "views plain batches dataset image-text text-image by captions glofnd exact single fnc";
    for (int e = 0; e < EVENTS; e++) {
        if (e < EVENTS - 1 && strcasestr(events[e].name, word)) return 1;
        for (int i = 0; i < events[e].count; i++)
            if (has_word(&events[e].key[i], word)) return 1;
    }
    return strcasestr(others, word) != NULL;
}
