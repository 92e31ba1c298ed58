/* folder.c - images in folders: one folder per class, or one folder of images without labels.
 *
 * Classes are the sub-folders in bytewise order, images within a class in the order of torchvision's ImageFolder: by folder,
 * then by name. Images are known by their endings, files without one by their first bytes. A class folder without images stays a
 * class, so that labels of a train and a test folder agree. A file `classnames.txt` beside the class folders, a line for each in
 * their order, gives them different names; then a further folder `unlabelled` is no class: its images have no label.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "data/dataset_format.h"
#include "image/image.h"
#include "io/file.h"
#include "util/array.h"

/* ----- the folders that a walk has entered, by device and inode: links that lead to one of them are not followed again ----- */

typedef struct folder_id {
    uint64_t device, inode; /* inode 0: an empty place */
} folder_id;

typedef struct visited_set { /* all zero: empty */
    folder_id *place;        /* [capacity] a hash table; capacity is a power of two, or 0 */
    size_t used, capacity;
} visited_set;

/* The place of `id`, or the empty one where it belongs. */
static folder_id *find_place(folder_id *place, size_t capacity, folder_id id) {
    uint64_t at = (id.inode ^ id.device * 0x9e3779b97f4a7c15u) * 0xd6e8feb86659fd93u;
    for (at ^= at >> 32;; at++) {
        folder_id *p = &place[at & (capacity - 1)];
        if (p->inode == 0 || (p->inode == id.inode && p->device == id.device)) return p;
    }
}

static int grow_visited(visited_set *v) {
    const size_t capacity = v->capacity ? 2 * v->capacity : 64;
    folder_id *place = calloc(capacity, sizeof *place);
    if (!place) return 0;
    for (size_t i = 0; i < v->capacity; i++)
        if (v->place[i].inode) *find_place(place, capacity, v->place[i]) = v->place[i];
    free(v->place);
    v->place = place;
    v->capacity = capacity;
    return 1;
}

/* *is_new: 0 if this folder, under whatever name, was added before. E_IO: it cannot be read. */
static glofnd_status visited_add(gf_error *err, visited_set *v, const char *path, int *is_new) {
    struct stat st;
    FAIL_IF(err, stat(path, &st) != 0, GLOFND_E_IO, "the folder '%.400s' cannot be read: %s", path, strerror(errno));
    FAIL_IF(err, 2 * (v->used + 1) > v->capacity && !grow_visited(v), GLOFND_E_MEMORY, "no memory for a list of %zu folders",
            v->used + 1);
    const folder_id id = {(uint64_t)st.st_dev, (uint64_t)st.st_ino ? (uint64_t)st.st_ino : UINT64_MAX};
    folder_id *p = find_place(v->place, v->capacity, id);
    *is_new = p->inode == 0;
    if (*is_new) *p = id, v->used++;
    return GLOFND_OK;
}

/* ----- images and classes ----- */

typedef struct item {
    const char *path;      /* from the root, in folder.paths; set once that no longer moves */
    uint32_t folder_bytes; /* of path: up to its last slash, 0 if it has none */
    int32_t label;
} item;

typedef struct left_out {
    int64_t count;
    char first[256]; /* by name, from the root */
} left_out;

typedef struct folder {
    char root[PATH_MAX];
    int is_train; /* root is the train folder of a set with a test folder */
    gf_string_list paths;
    item *items; /* [paths.n] */
    size_t capacity;
    left_out foreign; /* images of other formats */
    left_out others;  /* files that are no images */
} folder;

typedef struct class_folders {
    gf_string_list all, names; /* folders, and names given to them; names may be empty */
    gf_string_list kept;       /* those of `all` that are classes here */
    int unlabelled;            /* beside them there is a folder of that name */
} class_folders;

#define CLASS_NAMES "classnames.txt"
#define CAPTIONS "captions.csv" /* `data export --folder` writes it */

static int is_image_name(const char *name) {
    const char *dot = strrchr(name, '.');
    if (!dot) return 0;
    if (strcasecmp(dot, ".webp") == 0) return gf_image_reads_webp();
    return strcasecmp(dot, ".jpg") == 0 || strcasecmp(dot, ".jpeg") == 0 || strcasecmp(dot, ".png") == 0;
}

/* Formats that ImageFolder accepts, or cameras write, but this program does not. */
static int is_foreign_image(const char *name) {
    static const char *const ends[] = {".webp", ".bmp", ".tif", ".tiff", ".ppm", ".pgm", ".gif", ".avif", ".heic", ".jfif"};
    const char *dot = strrchr(name, '.');
    for (size_t k = 0; dot && k < sizeof ends / sizeof ends[0]; k++)
        if (strcasecmp(dot, ends[k]) == 0) return 1;
    return 0;
}

/* Regular files only: a pipe is not waited for. */
static int begins_as_image(const char *path) {
    uint8_t bytes[GF_IMAGE_MAGIC];
    gf_file_stamp stamp;
    int fd;
    if (gf_file_open(NULL, path, &fd, &stamp) != GLOFND_OK) return 0;
    const size_t n = stamp.size < sizeof bytes ? (size_t)stamp.size : sizeof bytes;
    const int is_image = gf_file_read_at(NULL, fd, path, 0, bytes, n) == GLOFND_OK && gf_image_begins(bytes, n);
    gf_close(fd);
    return is_image;
}

static glofnd_status join_path(gf_error *err, char out[PATH_MAX], const char *a, const char *b) {
    const int n = snprintf(out, PATH_MAX, "%s%s%s", a, a[0] && b[0] ? "/" : "", b);
    FAIL_IF(err, n < 0 || n >= PATH_MAX, GLOFND_E_IO, "the path '%.200s/%.200s' is too long", a, b);
    return GLOFND_OK;
}

static glofnd_status add_item(gf_error *err, folder *f, const char *where, const char *name, int32_t label) {
    char path[PATH_MAX];
    TRY(join_path(err, path, where, name));
    FAIL_IF(err, !gf_grow(&f->items, &f->capacity, (size_t)f->paths.n + 1, sizeof *f->items), GLOFND_E_MEMORY,
            "no memory for a list of %lld images", (long long)f->paths.n + 1);
    f->items[f->paths.n] = (item){.folder_bytes = (uint32_t)strlen(where), .label = label};
    return gf_string_list_add(err, &f->paths, path, strlen(path));
}

static void leave_out(left_out *x, const char *where, const char *name) {
    char path[sizeof x->first];
    const int n = snprintf(path, sizeof path, "%s%s%s", where, where[0] ? "/" : "", name);
    if (n < 0) return;
    if (x->count++ == 0 || strcmp(path, x->first) < 0) memcpy(x->first, path, sizeof path);
}

/* A file, or what cannot be read as a folder. `path`: of the folder `where`. */
static glofnd_status list_file(gf_error *err, folder *f, const char *path, const char *where, const char *name,
                               gf_string_list *files) {
    char whole[PATH_MAX];
    const char *dot = strrchr(name, '.');
    const int has_ending = dot && dot[1];
    TRY(join_path(err, whole, path, name));
    if (is_image_name(name) || (!has_ending && begins_as_image(whole))) return gf_string_list_add(err, files, name, strlen(name));
    if (is_foreign_image(name)) leave_out(&f->foreign, where, name);
    else if (where[0] || (strcmp(name, CLASS_NAMES) != 0 && strcmp(name, CAPTIONS) != 0)) leave_out(&f->others, where, name);
    return GLOFND_OK;
}

/* The names in `where` (from the root), unsorted: images, folders, and links to folders; names that begin with a dot are left
 * out. */
static glofnd_status list_folder(gf_error *err, folder *f, const char *where, gf_string_list *files, gf_string_list *folders,
                                 gf_string_list *links) {
    char path[PATH_MAX], entry_path[PATH_MAX];
    TRY(join_path(err, path, f->root, where));
    DIR *dir = opendir(path);
    FAIL_IF(err, !dir, GLOFND_E_IO, "the folder '%.400s' cannot be read: %s", path, strerror(errno));
    glofnd_status status = GLOFND_OK;
    const struct dirent *e;
    while (status == GLOFND_OK && (errno = 0, e = readdir(dir)) != NULL) {
        if (e->d_name[0] == '.') continue;
        int is_folder = e->d_type == DT_DIR, is_link = e->d_type == DT_LNK;
        if (is_link || e->d_type == DT_UNKNOWN) {
            struct stat st;
            status = join_path(err, entry_path, path, e->d_name);
            is_folder = status == GLOFND_OK && gf_is_folder(entry_path);
            is_link = is_folder && lstat(entry_path, &st) == 0 && S_ISLNK(st.st_mode);
        }
        if (status == GLOFND_OK && is_folder)
            status = gf_string_list_add(err, is_link ? links : folders, e->d_name, strlen(e->d_name));
        else if (status == GLOFND_OK) status = list_file(err, f, path, where, e->d_name, files);
    }
    if (status == GLOFND_OK && errno)
        status = gf_fail(err, GLOFND_E_IO, "the folder '%.400s' cannot be read: %s", path, strerror(errno));
    closedir(dir);
    return status;
}

typedef struct walk { /* folders still to read, from the root: an explicit list, as their depth is that of the data */
    gf_string_list folders, links;
    int64_t folder, link; /* the next of each */
    visited_set visited;
} walk;

static glofnd_status add_paths(gf_error *err, const char *where, gf_string_list *names, gf_string_list *to) {
    char below[PATH_MAX];
    TRY(gf_string_list_sort(err, names));
    for (int64_t i = 0; i < names->n; i++) {
        TRY(join_path(err, below, where, gf_string_list_get(names, i)));
        TRY(gf_string_list_add(err, to, below, strlen(below)));
    }
    return GLOFND_OK;
}

/* Real folders first, so that a link never takes the place of the folder it leads to. */
static glofnd_status scan_all(gf_error *err, folder *f, walk *w, int32_t label) {
    char where[PATH_MAX], path[PATH_MAX];
    while (w->folder < w->folders.n || w->link < w->links.n) {
        const int real = w->folder < w->folders.n;
        const char *next = real ? gf_string_list_get(&w->folders, w->folder++) : gf_string_list_get(&w->links, w->link++);
        int is_new = 0;
        TRY(join_path(err, where, next, "")); /* the lists move as they grow */
        TRY(join_path(err, path, f->root, where));
        TRY(visited_add(err, &w->visited, path, &is_new));
        if (!is_new) continue;
        /* The images in `where`; its folders are added to the walk. */
        gf_string_list files = {0}, folders = {0}, links = {0};
        glofnd_status status = list_folder(err, f, where, &files, &folders, &links);
        for (int64_t i = 0; i < files.n && status == GLOFND_OK; i++)
            status = add_item(err, f, where, gf_string_list_get(&files, i), label);
        if (status == GLOFND_OK) status = add_paths(err, where, &folders, &w->folders);
        if (status == GLOFND_OK) status = add_paths(err, where, &links, &w->links);
        gf_string_list_free(&files);
        gf_string_list_free(&folders);
        gf_string_list_free(&links);
        TRY(status);
    }
    return GLOFND_OK;
}

/* Everything in and below the class folder `where`; each folder once, by whichever links it can be reached. The folder of the
 * classes itself is not entered: by a link to it, a class would get the images of all others. */
static glofnd_status scan_class(gf_error *err, folder *f, const char *where, int32_t label) {
    walk w = {0};
    int is_new;
    glofnd_status status = visited_add(err, &w.visited, f->root, &is_new);
    if (status == GLOFND_OK) status = gf_string_list_add(err, &w.folders, where, strlen(where));
    if (status == GLOFND_OK) status = scan_all(err, f, &w, label);
    gf_string_list_free(&w.folders);
    gf_string_list_free(&w.links);
    free(w.visited.place);
    return status;
}

static int compare_items(const void *a, const void *b) {
    const item *x = a, *y = b;
    if (x->label != y->label) return x->label < y->label ? -1 : 1;
    const size_t n = x->folder_bytes < y->folder_bytes ? x->folder_bytes : y->folder_bytes;
    const int order = memcmp(x->path, y->path, n);
    if (order) return order;
    if (x->folder_bytes != y->folder_bytes) return x->folder_bytes < y->folder_bytes ? -1 : 1;
    return strcmp(x->path + n, y->path + n);
}

/* ----- classes ----- */

static glofnd_status take_listed(gf_error *err, const folder *f, const char *list, const gf_string_list *all,
                                 gf_string_list *lines, gf_string_list *out) {
    TRY(gf_read_lines(err, list, 0, lines));
    FAIL_IF(err, lines->n == 0, GLOFND_E_FORMAT, "the list of classes '%.300s' is empty", list);
    for (int64_t i = 0; i < lines->n; i++) {
        /* The folder that a line of the list names: the line itself, or its first word (lists often add a description). */
        const char *line = gf_string_list_get(lines, i);
        char word[NAME_MAX + 1];
        snprintf(word, sizeof word, "%.*s", (int)strcspn(line, " \t"), line);
        const char *name = gf_string_list_find(all, line) >= 0 ? line : word;
        FAIL_IF(err, gf_string_list_find(all, name) < 0, GLOFND_E_FORMAT,
                "the list of classes has '%.100s', which is no folder in '%.300s'", line, f->root);
        TRY(gf_string_list_add(err, out, name, strlen(name)));
    }
    TRY(gf_string_list_sort(err, out));
    gf_string_list_unique(out);
    return GLOFND_OK;
}

static glofnd_status copy_names(gf_error *err, const gf_string_list *from, const char *without, gf_string_list *to) {
    for (int64_t k = 0; k < from->n; k++) {
        const char *name = gf_string_list_get(from, k);
        if (!without || strcmp(name, without) != 0) TRY(gf_string_list_add(err, to, name, strlen(name)));
    }
    return GLOFND_OK;
}

static glofnd_status scan_classes(gf_error *err, gf_dataset *d, folder *f, const char *list, class_folders *c) {
    /* The class folders, sorted, and their names if a file has them. */
    char path[PATH_MAX];
    TRY(join_path(err, path, f->root, CLASS_NAMES));
    TRY(gf_string_list_sort(err, &d->classes));
    const int64_t n = d->classes.n, extra = gf_string_list_find(&d->classes, GF_UNLABELLED) >= 0;
    TRY(gf_read_class_names(err, d, path, n - extra, n, &c->names));
    c->unlabelled = c->names.n > 0 && c->names.n < n;
    TRY(copy_names(err, &d->classes, c->unlabelled ? GF_UNLABELLED : NULL, &c->all));
    gf_string_list_free(&d->classes);
    if (list) {
        /* Only the classes that a file lists; labels count them in bytewise order, whatever the order of the list. */
        gf_string_list lines = {0};
        const glofnd_status status = take_listed(err, f, list, &c->all, &lines, &c->kept);
        gf_string_list_free(&lines);
        TRY(status);
    } else TRY(copy_names(err, &c->all, NULL, &c->kept));
    FAIL_IF(err, c->kept.n > GF_CLASSES_MAX, GLOFND_E_FORMAT, "'%.400s' has more than %d folders", f->root, GF_CLASSES_MAX);
    for (int64_t k = 0; k < c->kept.n; k++) TRY(scan_class(err, f, gf_string_list_get(&c->kept, k), (int32_t)k));
    if (c->unlabelled && !list) TRY(scan_class(err, f, GF_UNLABELLED, -1));
    /* d->classes: the names of the classes that were kept. */
    for (int64_t k = 0; k < c->kept.n; k++) {
        const char *name = gf_string_list_get(&c->kept, k);
        if (c->names.n > 0) name = gf_string_list_get(&c->names, gf_string_list_find(&c->all, name));
        TRY(gf_string_list_add(err, &d->classes, name, strlen(name)));
    }
    return GLOFND_OK;
}

/* 1: the link `name` in the root leads to the root, or to a folder that holds it. */
static int leads_up(const folder *f, const char *name) {
    char path[PATH_MAX], root[PATH_MAX], target[PATH_MAX];
    if (join_path(NULL, path, f->root, name) != GLOFND_OK || !realpath(f->root, root) || !realpath(path, target)) return 0;
    const size_t n = strlen(target);
    return n == 1 || (strncmp(root, target, n) == 0 && (root[n] == '/' || !root[n]));
}

static glofnd_status scan_root(gf_error *err, gf_dataset *d, folder *f, gf_string_list *files) {
    const char *list = gf_spec_value(&d->spec, "classes");
    /* The folders in the root, a class each; links may lead to them, but not up. */
    gf_string_list links = {0};
    glofnd_status status = list_folder(err, f, "", files, &d->classes, &links);
    for (int64_t i = 0; i < links.n && status == GLOFND_OK; i++) {
        const char *name = gf_string_list_get(&links, i);
        if (!leads_up(f, name)) status = gf_string_list_add(err, &d->classes, name, strlen(name));
    }
    gf_string_list_free(&links);
    TRY(status);
    if (d->classes.n > 0 || list) {
        class_folders c = {0};
        status = scan_classes(err, d, f, list, &c);
        gf_string_list_free(&c.all);
        gf_string_list_free(&c.names);
        gf_string_list_free(&c.kept);
        TRY(status);
    }
    d->info.classes = (int32_t)d->classes.n;
    if (f->paths.n == 0 && !list) { /* no images below: a flat folder, whatever empty folders it has */
        gf_string_list_free(&d->classes);
        d->info.classes = 0;
        for (int64_t i = 0; i < files->n; i++) TRY(add_item(err, f, "", gf_string_list_get(files, i), -1));
    } else if (files->n != 0) { /* images beside class folders belong to no class */
        TRY(gf_string_list_sort(err, files));
        gf_dataset_add_note(d, "%lld image%s outside the class folders left out, the first: %.400s/%s", (long long)files->n,
                            files->n == 1 ? "" : "s", f->root, gf_string_list_get(files, 0));
    }
    FAIL_IF(err, f->paths.n == 0 && f->foreign.count, GLOFND_E_FORMAT,
            "'%.250s' holds no %s image, but %lld with other endings, as '%.100s'; convert them", f->root, gf_image_endings(),
            (long long)f->foreign.count, f->foreign.first);
    FAIL_IF(err, f->paths.n == 0, GLOFND_E_FORMAT, "'%.400s' holds no %s image", f->root, gf_image_endings());
    if (f->foreign.count)
        gf_dataset_add_note(d, "%lld image%s with a different ending than %s left out, the first: %.400s/%s",
                            (long long)f->foreign.count, f->foreign.count == 1 ? "" : "s", gf_image_endings(), f->root,
                            f->foreign.first);
    if (f->others.count)
        gf_dataset_add_note(d, "%lld file%s no image%s left out, the first: %.400s/%s", (long long)f->others.count,
                            f->others.count == 1 ? " that is" : "s that are", f->others.count == 1 ? "" : "s", f->root,
                            f->others.first);
    for (int64_t i = 0; i < f->paths.n; i++) f->items[i].path = gf_string_list_get(&f->paths, i);
    if (f->paths.n > 1) qsort(f->items, (size_t)f->paths.n, sizeof *f->items, compare_items);
    d->info.n = f->paths.n;
    return GLOFND_OK;
}

/* ----- which folder ----- */

static int has_folder(const char *place, const char *name) {
    char path[PATH_MAX];
    return join_path(NULL, path, place, name) == GLOFND_OK && gf_is_folder(path);
}

static const char *test_folder(const char *place) {
    return has_folder(place, "test") ? "test" : has_folder(place, "val") ? "val" : NULL;
}

/* A folder `train` is a split if a test folder, or no other folder, lies beside it; else it is a class of trains. */
static int train_is_split(const char *place) {
    if (!has_folder(place, "train")) return 0;
    if (test_folder(place)) return 1;
    folder f = {0};
    gf_string_list files = {0}, folders = {0};
    const int fits = join_path(NULL, f.root, place, "") == GLOFND_OK;
    const int alone = fits && list_folder(NULL, &f, "", &files, &folders, &folders) == GLOFND_OK && folders.n == 1;
    gf_string_list_free(&files);
    gf_string_list_free(&folders);
    return alone;
}

static glofnd_status open_folder(gf_error *err, gf_dataset *d) {
    folder *f = calloc(1, sizeof *f);
    FAIL_IF(err, !f, GLOFND_E_MEMORY, "no memory to open a folder");
    d->self = f;
    const gf_spec *spec = &d->spec;
    const char *split = gf_spec_value(spec, "split");
    FAIL_IF(err, !gf_is_folder(spec->place), GLOFND_E_IO, "'%.400s' is not a folder that can be read", spec->place);
    if (!split) split = train_is_split(spec->place) ? "train" : "all";
    const char *name = split;
    if (strcmp(split, "all") == 0) name = "";
    else if (strcmp(split, "test") == 0) name = test_folder(spec->place);
    else
        FAIL_IF(err, strcmp(split, "train") && strcmp(split, "val"), GLOFND_E_OPTION,
                "data 'folder': split is '%.60s'; it must be train, val, test or all", split);
    FAIL_IF(err, !name, GLOFND_E_IO, "'%.400s' has neither a folder test nor val", spec->place);
    FAIL_IF(err, name[0] && !has_folder(spec->place, name), GLOFND_E_IO, "'%.400s' has no folder %s", spec->place, name);
    f->is_train = strcmp(split, "train") == 0;
    TRY(join_path(err, f->root, spec->place, name));
    gf_string_list files = {0};
    const glofnd_status status = scan_root(err, d, f, &files);
    gf_string_list_free(&files);
    return status;
}

static void close_folder(void *self) {
    folder *f = self;
    if (!f) return;
    gf_string_list_free(&f->paths);
    free(f->items);
    free(f);
}

static int32_t label_of(const gf_dataset *d, int64_t i) { return ((const folder *)d->self)->items[i].label; }

static void name_of(const gf_dataset *d, int64_t i, char *out, size_t bytes) {
    const folder *f = d->self;
    snprintf(out, bytes, "%s/%s", f->root, f->items[i].path);
}

static uint64_t key_of(const gf_dataset *d, int64_t i) {
    const char *path = ((const folder *)d->self)->items[i].path;
    return gf_key_hash(path, strlen(path));
}

static glofnd_status find_image(gf_error *err, const gf_dataset *d, int64_t i, char *path, size_t bytes, gf_span *out) {
    const folder *f = d->self;
    const int n = snprintf(path, bytes, "%s/%s", f->root, f->items[i].path);
    FAIL_IF(err, n < 0 || (size_t)n >= bytes, GLOFND_E_FORMAT, "the path '%.200s/%.200s' is too long", f->root, f->items[i].path);
    *out = (gf_span){0, UINT64_MAX};
    return GLOFND_OK;
}

static glofnd_status read_folder(gf_error *err, const gf_dataset *d, int64_t i, const gf_decode_hint *hint, gf_sample *out) {
    char path[PATH_MAX];
    gf_span whole;
    TRY(find_image(err, d, i, path, sizeof path, &whole));
    return gf_sample_read_file(err, path, hint, out);
}

static int test_spec(const gf_dataset *d, char *out, size_t bytes) {
    const folder *f = d->self;
    if (!f->is_train || !test_folder(d->spec.place)) return 0;
    const char *list = gf_spec_value(&d->spec, "classes");
    const int n = snprintf(out, bytes, "folder:%s?split=test%s%s", d->spec.place, list ? "&classes=" : "", list ? list : "");
    return n > 0 && (size_t)n < bytes;
}

static const char *const options[] = {"classes", "split", NULL};

const gf_dataset_format gf_format_folder = {
    .name = "folder",
    .options = options,
    .open = open_folder,
    .close = close_folder,
    .label = label_of,
    .name_of = name_of,
    .key = key_of,
    .read = read_folder,
    .test_spec = test_spec,
    .find = find_image,
};
