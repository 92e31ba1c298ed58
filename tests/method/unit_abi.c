/* unit_abi.c - the binary interface of the stable tier, glofnd.h and glofnd_discover.h: offset and size of every field of every
 * struct, and the value of every constant, as tests/fixtures/abi-1.0.tsv has them. Lines may be added to that file, for fields at
 * the end of a struct and for new constants; none may change. Bindings can check their own declarations against the same file.
 */
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "glofnd.h"
#include "glofnd_discover.h"
#include "support/source_file.h"

typedef struct entry { /* a constant has no type, and its value as offset */
    const char *type, *field;
    long offset;
    size_t size;
} entry;

#define FIELD(struct_, name) \
    { #struct_, #name, (long)offsetof(struct_, name), sizeof(((struct_ *)NULL)->name) }
#define CONSTANT(name) \
    { "constant", "GLOFND_" #name, GLOFND_##name, sizeof(int) }
#define STATUS(name, value, text) CONSTANT(name),

/* clang-format off */
static const entry TABLE[] = {
#define F(name) FIELD(glofnd_store_spec, name)
    F(size), F(n), F(dim), F(path), F(keyed), F(reserved),
#undef F
#define F(name) FIELD(glofnd_store_info, name)
    F(size), F(n), F(modalities), F(temperatures), F(ring_rows), F(ring_dim), F(ring_count), F(touched_rows), F(row_bytes),
    F(bytes), F(keys), F(keyed), F(reserved),
#undef F
#define F(name) FIELD(glofnd_anchor, name)
    F(lambda), F(m), F(v), F(log_u), F(clock), F(tau), F(tau_m), F(tau_v), F(tau_clock),
#undef F
#define F(name) FIELD(glofnd_sims, name)
    F(size), F(rows), F(cols), F(sim), F(negative), F(id), F(row_group), F(col_group), F(views), F(side), F(epoch), F(reserved),
#undef F
#define F(name) FIELD(glofnd_query, name)
    F(size), F(rows), F(cols), F(dim), F(q), F(k), F(skip), F(q_stride), F(k_stride), F(alpha), F(dtype), F(reserved),
#undef F
#define F(name) FIELD(glofnd_batch, name)
    F(size), F(n), F(dim), F(a), F(b), F(id), F(label), F(group),
    F(a_stride), F(b_stride), F(grad_a_stride), F(grad_b_stride), F(dtype), F(grad_dtype), F(epoch), F(want), F(tau), F(gamma),
    F(extra), F(negatives_a), F(negatives_b), F(negatives_a_n), F(negatives_b_n), F(negatives_a_stride), F(negatives_b_stride),
    F(negatives_a_id), F(negatives_b_id), F(grad_negatives_a), F(grad_negatives_b), F(bias), F(positives), F(guide),
    F(guide_threshold), F(guide_dim),
#undef F
#define F(name) FIELD(glofnd_stats, name)
    F(size), F(loss), F(grad_tau), F(grad_scale), F(kept_share), F(detector_share), F(lambda_mean), F(quantile_mean),
    F(log_u_mean), F(tau_mean), F(precision), F(recall), F(pairs), F(flagged), F(same), F(hits), F(rescued), F(f1), F(precision_per_anchor),
    F(recall_per_anchor), F(grad_bias),
#undef F
#define F(name) FIELD(glofnd_embedding_files, name)
    F(size), F(path), F(paths), F(tensor), F(column), F(id), F(label),
#undef F
#define F(name) FIELD(glofnd_embeddings_info, name)
    F(size), F(n), F(dim), F(files), F(columns), F(name), F(label),
#undef F
#define F(name) FIELD(glofnd_discover_spec, name)
    F(size), F(n), F(dim), F(x), F(label), F(stride), F(dtype), F(device), F(alpha), F(k), F(top), F(max_pairs), F(dup),
    F(memory), F(threads), F(duplicates), F(progress), F(user), F(files), F(negatives), F(approx), F(only_duplicates),
    F(worker), F(parts), F(patience), F(stored), F(query), F(query_n), F(query_stride), F(query_dtype), F(center),
#undef F
#define F(name) FIELD(glofnd_discovery_arrays, name)
    F(size), F(n), F(top), F(usable), F(rank), F(kind), F(threshold), F(above), F(mutual), F(hits), F(copies), F(neighbour),
    F(similarity), F(component), F(group), F(pairs), F(first), F(other), F(pair_similarity), F(pair_mutual), F(duplicates),
    F(dup_a), F(dup_b), F(dup_similarity), F(dup_exact), F(components), F(groups), F(component_rows), F(component_pairs),
    F(component_first), F(group_rows), F(group_pairs), F(group_first), F(pairs_above), F(mutual_pairs), F(duplicate_pairs),
    F(precision), F(recall), F(f1), F(negatives), F(negative), F(negative_similarity), F(dup),
#undef F
#define F(name) FIELD(glofnd_row_split, name)
    F(name), F(first), F(rows),
#undef F
#define F(name) FIELD(glofnd_decide_spec, name)
    F(size), F(keep), F(probe), F(score), F(split), F(splits), F(outliers), F(sample), F(pred_probs), F(pred_classes),
    F(rows),
#undef F
#define F(name) FIELD(glofnd_decisions, name)
    F(size), F(n), F(keep), F(duplicates), F(bad), F(kept), F(kept_similarity), F(other_label), F(unchecked), F(outliers),
    F(outliers_found), F(outlier_limit), F(outlier), F(outlier_nearest), F(outlier_score), F(issues), F(issue),
    F(issue_label), F(issue_score), F(issue_probability), F(votes), F(votes_for), F(votes_own), F(splits), F(leak),
    F(leak_exact), F(leaks), F(leak_a), F(leak_b), F(leak_similarity), F(samples), F(sample), F(sample_reach), F(limit),
#undef F
#define F(name) FIELD(glofnd_discovery_files, name)
    F(size), F(source), F(names), F(classes), F(class_count), F(replace), F(parquet), F(graph), F(reserved), F(other_names),
    F(query_source),
#undef F
    CONSTANT(DEVICE_CPU), CONSTANT(DEVICE_CUDA), CONSTANT(F32), CONSTANT(BF16), CONSTANT(F16), CONSTANT(SHARED),
    CONSTANT(WANT_QUALITY), CONSTANT(WANT_QUANTILE), CONSTANT(WANT_NO_UPDATE),
    CONSTANT(DUPLICATES_DEFAULT), CONSTANT(DUPLICATES_ABOVE), CONSTANT(DUPLICATES_EXACT),
    CONSTANT(KEEP_FIRST), CONSTANT(KEEP_CENTRAL), CONSTANT(KEEP_SCORE), CONSTANT(KEEP_LABEL),
    GLOFND_STATUS_LIST(STATUS)};
/* clang-format on */
enum { ENTRIES = sizeof TABLE / sizeof *TABLE };

/* A field in hidden padding could be added without a new size: old programs would pass garbage in it. */
TEST(structs_have_no_hidden_padding) {
    long end = 0;
    for (int i = 0; i < ENTRIES && strcmp(TABLE[i].type, "constant") != 0; i++) {
        const int first = i == 0 || strcmp(TABLE[i].type, TABLE[i - 1].type) != 0;
        if (TABLE[i].offset != (first ? 0 : end))
            fail_msg("%s.%s is at %ld, and %ld bytes come before it", TABLE[i].type, TABLE[i].field, TABLE[i].offset, end);
        end = TABLE[i].offset + (long)TABLE[i].size;
    }
#define ENDS_WITH(type, last) assert_int_equal(offsetof(type, last) + sizeof(((type *)NULL)->last), sizeof(type))
    ENDS_WITH(glofnd_store_spec, reserved);
    ENDS_WITH(glofnd_store_info, reserved);
    ENDS_WITH(glofnd_anchor, tau_clock);
    ENDS_WITH(glofnd_sims, reserved);
    ENDS_WITH(glofnd_query, reserved);
    ENDS_WITH(glofnd_batch, guide_dim);
    ENDS_WITH(glofnd_stats, grad_bias);
    ENDS_WITH(glofnd_embedding_files, label);
    ENDS_WITH(glofnd_embeddings_info, label);
    ENDS_WITH(glofnd_discover_spec, center);
    ENDS_WITH(glofnd_discovery_arrays, dup);
    ENDS_WITH(glofnd_row_split, rows);
    ENDS_WITH(glofnd_decide_spec, rows);
    ENDS_WITH(glofnd_decisions, limit);
    ENDS_WITH(glofnd_discovery_files, query_source);
}

static FILE *open_fixture(void) {
    const char *path = source_file("tests/fixtures/abi-1.0.tsv");
    FILE *f = fopen(path, "r");
    if (!f) fail_msg("%s cannot be read", path);
    return f;
}

/* Every line of the file is still true; and the file knows every field and constant. */
TEST(the_interface_is_as_recorded) {
    FILE *f = open_fixture();
    char type[64], field[64];
    long offset;
    size_t size;
    int lines = 0;
    assert_true(fscanf(f, "%*[^\n]") == 0); /* the head */
    while (fscanf(f, "%63s %63s %ld %zu", type, field, &offset, &size) == 4) {
        int i = 0;
        while (i < ENTRIES && (strcmp(TABLE[i].type, type) != 0 || strcmp(TABLE[i].field, field) != 0)) i++;
        if (i == ENTRIES) fail_msg("%s %s is gone", type, field);
        if (TABLE[i].offset != offset || TABLE[i].size != size)
            fail_msg("%s %s was %ld with %zu bytes, now it is %ld with %zu", type, field, offset, size, TABLE[i].offset,
                     TABLE[i].size);
        lines++;
    }
    fclose(f);
    if (lines != ENTRIES) fail_msg("tests/fixtures/abi-1.0.tsv has %d lines, the headers %d entries", lines, (int)ENTRIES);
}

/* `unit_abi --print`: the file, anew. */
static int print_table(int argc, char **argv) {
    if (argc != 2 || strcmp(argv[1], "--print") != 0) return -1;
    printf("type\tfield\toffset\tbytes\n");
    for (int i = 0; i < ENTRIES; i++) printf("%s\t%s\t%ld\t%zu\n", TABLE[i].type, TABLE[i].field, TABLE[i].offset, TABLE[i].size);
    return 0;
}

TEST_COMMAND(print_table)
