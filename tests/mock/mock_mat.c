/* mock_mat.c - MATLAB files of published datasets, for shell tests that make mock-ups: mock_mat cars|flowers DIR IMAGES CLASSES.
 * Image i (from 1) has class 1 + i mod CLASSES; two of three are for training. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/mat_writer.h"

static int write_file(const char *folder, const char *name, mat_bytes *variables) {
    char path[4096];
    mat_bytes head = {0};
    mat_header(&head);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    const int wrong = !f || fwrite(head.at, 1, head.n, f) != head.n || fwrite(variables->at, 1, variables->n, f) != variables->n;
    if (wrong || fclose(f) != 0) fprintf(stderr, "mock_mat: %s cannot be written\n", path);
    mat_free(&head);
    mat_free(variables);
    return wrong;
}

static int is_test(int i) { return i % 3 == 0; }

static int make_cars(const char *folder, int images, int classes) {
    static const char *const fields[] = {"class", "relative_im_path", "test"};
    mat_bytes items = {0}, names = {0}, v = {0};
    char text[64];
    for (int i = 1; i <= images; i++) {
        const double class = 1 + i % classes, test = is_test(i);
        snprintf(text, sizeof text, "car_ims/%06d.jpg", i);
        mat_numbers(&items, "", &class, 1, 1);
        mat_text(&items, "", text);
        mat_numbers(&items, "", &test, 1, 1);
    }
    for (int k = 0; k < classes; k++) {
        snprintf(text, sizeof text, "car %d", k);
        mat_text(&names, "", text);
    }
    mat_structs(&v, "annotations", images, fields, 3, &items);
    mat_cells(&v, "class_names", classes, &names);
    mat_free(&items);
    mat_free(&names);
    return write_file(folder, "cars_annos.mat", &v);
}

static int make_flowers(const char *folder, int images, int classes) {
    double *x = calloc((size_t)images, sizeof *x);
    static const char *const sets[] = {"trnid", "tstid"};
    mat_bytes v = {0};
    if (!x) return 1;
    for (int i = 1; i <= images; i++) x[i - 1] = 1 + i % classes;
    mat_numbers(&v, "labels", x, images, 0);
    int wrong = write_file(folder, "imagelabels.mat", &v);
    for (int set = 0; set < 2; set++) {
        int n = 0;
        for (int i = 1; i <= images; i++)
            if (is_test(i) == set) x[n++] = i;
        mat_numbers(&v, sets[set], x, n, 0);
    }
    mat_numbers(&v, "valid", x, 1, 0);
    wrong |= write_file(folder, "setid.mat", &v);
    free(x);
    return wrong;
}

int main(int argc, char **argv) {
    if (argc != 5 || atoi(argv[3]) < 1 || atoi(argv[4]) < 1) return 2;
    return (strcmp(argv[1], "cars") == 0 ? make_cars : make_flowers)(argv[2], atoi(argv[3]), atoi(argv[4]));
}
