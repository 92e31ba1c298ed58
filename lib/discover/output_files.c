/* output_files.c - see output_files.h: the folder, tables, .npz files. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "discover/output_files.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "io/blockfile.h"
#include "io/file.h"
#include "io/jsonl.h"
#include "util/array.h"
#include "util/parallel.h"
#include "util/text.h"

#define TEMP_FOLDER ".tmp-" /* TARGET.tmp-PID-K: a result in the making, or one that was replaced and is being removed */
#define OLD_FOLDER ".old-"  /* TARGET.old-PID-K: the previous result, where two folders cannot be exchanged */

/* musl has the system call, but no function for it. */
#ifndef RENAME_EXCHANGE
#define RENAME_EXCHANGE 2U
#define renameat2(from_fd, from, to_fd, to, flags) ((int)syscall(SYS_renameat2, from_fd, from, to_fd, to, flags))
#endif

static int is_dots(const char *name) { return strcmp(name, ".") == 0 || strcmp(name, "..") == 0; }

/* A file of the folder of a result: a letter, digits, an ending. */
static int is_numbered(const char *name) {
    const size_t digits = name[0] >= 'a' && name[0] <= 'z' ? strspn(name + 1, "0123456789") : 0;
    return digits && (strcmp(name + 1 + digits, ".js") == 0 || strcmp(name + 1 + digits, ".jpg") == 0);
}

/* A file of the result in `folder`, also one that a killed call was writing. */
static int is_own(const gf_output_kind *kind, const char *folder, const char *name) {
    if (kind->folder && strcmp(name, kind->folder) == 0) {
        /* 1: a folder with nothing but numbered files; a link is none. */
        char path[PATH_MAX];
        struct stat st;
        int error = 0, only = 1;
        if (gf_path_join(NULL, path, folder, name) != GLOFND_OK || lstat(path, &st) != 0 || !S_ISDIR(st.st_mode)) return 0;
        DIR *d = gf_open_folder(path);
        for (const struct dirent *e; d && (e = gf_next_entry(d, &error));) only &= is_dots(e->d_name) || is_numbered(e->d_name);
        if (d) closedir(d);
        return d && !error && only;
    }
    for (const char *const *own = kind->names; *own; own++) {
        const size_t n = strlen(*own);
        if (strncmp(*own, name, n) == 0 && (!name[n] || strncmp(name + n, GF_TEMP_MARK, strlen(GF_TEMP_MARK)) == 0)) return 1;
    }
    return 0;
}

static glofnd_status check_target(gf_error *err, const char *target, int force, const gf_output_kind *kind) {
    struct stat st;
    int empty;
    FAIL_IF(err, strlen(target) == 0 || strlen(target) > PATH_MAX - 64, GLOFND_E_ARGUMENT,
            "the path of the output folder is empty or too long");
    if (lstat(target, &st) != 0) {
        FAIL_IF(err, errno != ENOENT, GLOFND_E_IO, "'%.300s': %s", target, strerror(errno));
        return GLOFND_OK;
    }
    FAIL_IF(err, !force, GLOFND_E_IO, "'%.300s' exists; it is replaced only with replace=1", target);
    FAIL_IF(err, !S_ISDIR(st.st_mode), GLOFND_E_IO, "'%.300s' is not a folder and is not replaced", target);
    /* 1: no entries, 0: some. */
    int error = 0;
    DIR *d = gf_open_folder(target);
    empty = 1;
    FAIL_IF(err, !d, GLOFND_E_IO, "'%.300s' cannot be read: %s", target, strerror(errno));
    for (const struct dirent *e; (e = gf_next_entry(d, &error));) empty &= is_dots(e->d_name);
    closedir(d);
    FAIL_IF(err, error, GLOFND_E_IO, "'%.300s' cannot be read: %s", target, strerror(error));
    FAIL_IF(err, !empty && !kind->is_result(target), GLOFND_E_IO,
            "'%.300s' is not a folder of results (no %s) and is not replaced", target, kind->mark);
    return GLOFND_OK;
}

/* ----- removing ----- */

/* 1: only files of a result are in it. */
static int is_only_own(const gf_output_kind *kind, const char *path) {
    int error = 0, only = 1;
    DIR *d = gf_open_folder(path);
    for (const struct dirent *e; d && (e = gf_next_entry(d, &error));)
        only &= is_dots(e->d_name) || is_own(kind, path, e->d_name);
    if (d) closedir(d);
    return d && !error && only;
}

/* A folder of numbered files. */
static void remove_numbered(const char *path) {
    char file[PATH_MAX];
    int error = 0;
    DIR *d = gf_open_folder(path);
    for (const struct dirent *e; d && (e = gf_next_entry(d, &error));)
        if (is_numbered(e->d_name) && gf_path_join(NULL, file, path, e->d_name) == GLOFND_OK) unlink(file);
    if (d) closedir(d);
    rmdir(path);
}

/* The files of a result, then the folder. One that holds another file stays whole: its mark tells the next call what it is. */
static int remove_result(const gf_output_kind *kind, const char *path) {
    char file[PATH_MAX];
    int error = 0;
    if (!is_only_own(kind, path)) {
        errno = ENOTEMPTY;
        return -1;
    }
    DIR *d = gf_open_folder(path);
    for (const struct dirent *e; d && (e = gf_next_entry(d, &error));)
        if (is_own(kind, path, e->d_name) && gf_path_join(NULL, file, path, e->d_name) == GLOFND_OK && unlink(file) != 0)
            remove_numbered(file);
    if (d) closedir(d);
    return rmdir(path);
}

/* Moves the files of the user from a replaced result to the new one; what cannot be moved stays. */
static void keep_files(const gf_output_kind *kind, const char *from, const char *to) {
    char old[PATH_MAX], new[PATH_MAX];
    int error = 0, there;
    DIR *d = gf_open_folder(from);
    for (const struct dirent *e; d && (e = gf_next_entry(d, &error));) {
        if (is_dots(e->d_name) || is_own(kind, from, e->d_name)) continue;
        if (gf_path_join(NULL, old, from, e->d_name) != GLOFND_OK || gf_path_join(NULL, new, to, e->d_name) != GLOFND_OK)
            continue;
        if (gf_exists(NULL, new, &there) == GLOFND_OK && !there && rename(old, new) != 0) continue;
    }
    if (d) closedir(d);
}

/* ----- temporary folders ----- */

/* A new folder beside `target`. */
static char *make_beside(const char *target, const char *mark) {
    const size_t bytes = strlen(target) + 64;
    char *path = malloc(bytes);
    for (int k = 0; path && k < 1000; k++) {
        snprintf(path, bytes, "%s%s%ld-%d", target, mark, (long)getpid(), k);
        if (mkdir(path, 0777) == 0) return path;
        if (errno != EEXIST) break;
    }
    const int why = errno;
    free(path);
    errno = why;
    return NULL;
}

/* 1: NAME is BASE, a mark, and PID-K, or the six characters of earlier versions: a temporary folder of this target. */
static int is_beside(const char *name, const char *base, const char *mark) {
    static const char digits[] = "0123456789";
    const size_t n = strlen(base), m = strlen(mark);
    if (strncmp(name, base, n) != 0 || strncmp(name + n, mark, m) != 0) return 0;
    const char *rest = name + n + m;
    const size_t pid = strspn(rest, digits), k = pid && rest[pid] == '-' ? strspn(rest + pid + 1, digits) : 0;
    return (k && !rest[pid + 1 + k]) || (strlen(rest) == 6 && !strpbrk(rest, "-._ "));
}

/* One that a killed call has left: no process holds its lock. Files of the user go to the target. */
static void remove_leftover(const gf_output_kind *kind, const char *path, const char *target, int is_old) {
    struct stat st;
    if (lstat(path, &st) != 0 || !S_ISDIR(st.st_mode) || !(is_only_own(kind, path) || kind->is_result(path))) return;
    const int fd = gf_open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (fd < 0) return;
    if (gf_flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) {
        const int missing = lstat(target, &st) != 0 && errno == ENOENT;
        if (!(is_old && missing && rename(path, target) == 0)) { /* else: it is the result again */
            if (!missing) keep_files(kind, path, target);
            remove_result(kind, path);
        }
    }
    gf_close(fd);
}

/* ----- opening ----- */

/* Makes the temporary folder and locks it. 1: another process took it for a leftover before it was locked, and removes it. */
static int make_temp(gf_output_folder *f) {
    struct stat own, there;
    free(f->temp);
    f->temp = make_beside(f->target, TEMP_FOLDER);
    f->lock = f->temp ? gf_open(f->temp, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0) : -1;
    if (f->lock < 0) return f->temp && errno == ENOENT;
    const int busy = gf_flock(f->lock, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK; /* else: no locks on that file system */
    if (!busy && fstat(f->lock, &own) == 0 && stat(f->temp, &there) == 0 && own.st_ino == there.st_ino) return 0;
    gf_close(f->lock);
    f->lock = -1;
    return 1;
}

glofnd_status gf_output_folder_check(gf_error *err, const char *target, int force, const gf_output_kind *kind) {
    gf_output_folder trial = {0};
    const glofnd_status status = gf_output_folder_open(err, &trial, target, force, kind);
    gf_output_folder_close(&trial);
    return status;
}

glofnd_status gf_output_folder_open(gf_error *err, gf_output_folder *f, const char *target, int force,
                                    const gf_output_kind *kind) {
    *f = (gf_output_folder){.kind = kind, .force = force, .lock = -1};
    f->target = strdup(target);
    FAIL_IF(err, !f->target, GLOFND_E_MEMORY, "no memory for a path");
    for (size_t n = strlen(target); n > 1 && f->target[n - 1] == '/'; n--) f->target[n - 1] = 0;
    if (*f->target && strlen(f->target) < PATH_MAX - 64) {
        const char *leftovers_target = f->target;
        char folder[PATH_MAX], path[PATH_MAX];
        const char *slash = strrchr(leftovers_target, '/'), *base = slash ? slash + 1 : leftovers_target;
        int error = 0;
        snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - leftovers_target) + (slash == leftovers_target) : 1,
                 slash ? leftovers_target : ".");
        DIR *d = gf_open_folder(folder);
        for (const struct dirent *e; d && (e = gf_next_entry(d, &error));) {
            const int old = is_beside(e->d_name, base, OLD_FOLDER);
            if ((old || is_beside(e->d_name, base, TEMP_FOLDER)) && gf_path_join(NULL, path, folder, e->d_name) == GLOFND_OK)
                remove_leftover(kind, path, leftovers_target, old);
        }
        if (d) closedir(d);
    }
    TRY(check_target(err, f->target, force, kind));
    for (int tries = 1; make_temp(f) && tries < 1000; tries++) {}
    FAIL_IF(err, !f->temp, GLOFND_E_IO, "cannot create a folder next to '%.300s': %s", f->target, strerror(errno));
    FAIL_IF(err, f->lock < 0, GLOFND_E_IO, "'%.300s': %s", f->temp, strerror(errno));
    return GLOFND_OK;
}

glofnd_status gf_output_folder_path(gf_error *err, const gf_output_folder *f, const char *name, char *path) {
    return gf_path_join(err, path, f->temp, name);
}

/* ----- the result appears ----- */

/* A file that is not there is fine. */
static glofnd_status sync_file(gf_error *err, const char *folder, const char *name) {
    char path[PATH_MAX];
    TRY(gf_path_join(err, path, folder, name));
    const int fd = gf_open(path, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0 && errno == ENOENT) return GLOFND_OK;
    const int failed = fd < 0 || gf_sync(fd) != 0, why = errno;
    if (fd >= 0) gf_close(fd);
    FAIL_IF(err, failed, GLOFND_E_IO, "'%.300s' cannot be synced: %s", path, strerror(why));
    return GLOFND_OK;
}

/* Some file systems cannot exchange two names: then the old one moves away first, and the next call would bring it back if this
 * one were killed in between. */
static int exchange_folders(gf_output_folder *f) {
    if (renameat2(AT_FDCWD, f->temp, AT_FDCWD, f->target, RENAME_EXCHANGE) == 0) return 0;
    if (errno != EINVAL && errno != ENOSYS) return -1;
    char *old = make_beside(f->target, OLD_FOLDER);
    int done = old ? rename(f->target, old) : -1;
    if (done == 0 && (done = rename(f->temp, f->target)) != 0) {
        const int why = errno;
        if (rename(old, f->target) != 0) done = -1;
        errno = why;
    }
    if (done == 0) {
        free(f->temp);
        f->temp = old;
        return 0;
    }
    const int why = errno;
    if (old) rmdir(old);
    free(old);
    errno = why;
    return -1;
}

glofnd_status gf_output_folder_commit(gf_error *err, gf_output_folder *f) {
    struct stat st;
    const int there = lstat(f->target, &st) == 0;
    FAIL_IF(err, !f->force && there, GLOFND_E_IO, "'%.300s' was created meanwhile and is not replaced", f->target);
    if (there) TRY(check_target(err, f->target, f->force, f->kind));
    /* Bytes reach the disk before the name does. */
    char path[PATH_MAX];
    for (const char *const *own = f->kind->names; *own; own++) TRY(sync_file(err, f->temp, *own));
    if (f->kind->folder) {
        TRY(gf_path_join(err, path, f->temp, f->kind->folder));
        int error = 0;
        DIR *d = gf_open_folder(path);
        glofnd_status files_status = GLOFND_OK;
        if (d || errno != ENOENT) {
            FAIL_IF(err, !d, GLOFND_E_IO, "'%.300s' cannot be read: %s", path, strerror(errno));
            for (const struct dirent *e; files_status == GLOFND_OK && (e = gf_next_entry(d, &error));)
                if (is_numbered(e->d_name)) files_status = sync_file(err, path, e->d_name);
            closedir(d);
            FAIL_IF(err, files_status == GLOFND_OK && error, GLOFND_E_IO, "'%.300s' cannot be read: %s", path, strerror(error));
            TRY(files_status);
        }
    }
    FAIL_IF(err, gf_sync(f->lock) != 0 && errno != EINVAL && errno != ENOTSUP, GLOFND_E_IO, "'%.300s' cannot be synced: %s",
            f->temp, strerror(errno));
    const int done = there ? exchange_folders(f) : rename(f->temp, f->target);
    FAIL_IF(err, done != 0, GLOFND_E_IO, "'%.300s' cannot be renamed to its final name: %s", f->target, strerror(errno));
    glofnd_status status = GLOFND_OK;
    if (there) {
        keep_files(f->kind, f->temp, f->target);
        if (remove_result(f->kind, f->temp) != 0)
            status = gf_fail(err, GLOFND_E_IO, "'%.200s' is written; files of the folder it replaces are left in '%.200s': %s",
                             f->target, f->temp, strerror(errno));
    }
    free(f->temp);
    f->temp = NULL;
    return status;
}

void gf_output_folder_close(gf_output_folder *f) {
    if (f->temp) remove_result(f->kind, f->temp);
    if (f->target && f->lock >= 0) gf_close(f->lock);
    free(f->temp);
    free(f->target);
    *f = (gf_output_folder){.lock = -1};
}

void gf_output_folder_abandon(const char *target, const gf_output_kind *kind) {
    enum { FOLDERS = 8, TRIES = 100 }; /* a call has one at a time; a file may appear while others are removed */
    char path[PATH_MAX], gone[PATH_MAX];
    size_t n = strlen(target);
    while (n > 1 && target[n - 1] == '/') n--;
    for (int k = 0; k < FOLDERS && n < PATH_MAX - 64; k++) {
        snprintf(path, sizeof path, "%.*s%s%ld-%d", (int)n, target, TEMP_FOLDER, (long)getpid(), k);
        snprintf(gone, sizeof gone, "%.*s%s%ld-%d", (int)n, target, TEMP_FOLDER, (long)getpid(), 1000 + k);
        if (rename(path, gone) != 0) continue;
        for (int i = 0; i < TRIES && remove_result(kind, gone) != 0; i++) {}
    }
}

/* ---------- tables ---------- */

/* ----- lines ----- */

/* Place for n more bytes; NULL: no memory. */
static inline char *reserve(gf_lines *l, size_t n) {
    if (l->capacity - l->used < n && !l->failed) l->failed = !gf_grow(&l->at, &l->capacity, l->used + n, 1);
    return l->failed ? NULL : l->at + l->used;
}

void gf_lines_bytes(gf_lines *l, const char *bytes, size_t n) {
    char *p = reserve(l, n);
    if (!p) return;
    memcpy(p, bytes, n);
    l->used += n;
}

void gf_lines_text(gf_lines *l, const char *text) { gf_lines_bytes(l, text, strlen(text)); }

void gf_lines_integer(gf_lines *l, int64_t x) {
    char *p = reserve(l, GF_INTEGER_BYTES);
    if (p) l->used += gf_integer_text(p, x);
}

void gf_lines_number(gf_lines *l, double x) {
    char *p = reserve(l, GF_NUMBER_BYTES);
    if (p) l->used += gf_number_text(p, x);
}

void gf_lines_quoted(gf_lines *l, const char *text) {
    GF_LINES_PUT(l, "\"");
    while (*text) {
        char *p = reserve(l, GF_JSON_CHARACTER);
        if (!p) return;
        l->used += gf_json_character(&text, p);
    }
    GF_LINES_PUT(l, "\"");
}

void gf_lines_escaped(gf_lines *l, const char *text) {
    while (*text) {
        size_t plain = 0;
        while (text[plain] >= ' ' && text[plain] < 0x7f && text[plain] != '\\') plain++;
        gf_lines_bytes(l, text, plain);
        text += plain;
        char *p = *text ? reserve(l, GF_ESCAPED_BYTES) : NULL;
        if (!p) return;
        l->used += gf_escape_next(&text, 0, p);
    }
}

/* ----- cells ----- */

const char *gf_table_ending(gf_table_format format) { return format == GF_TABLE_PARQUET ? ".parquet" : ".tsv"; }

void gf_table_columns_add(gf_table_columns *c, gf_column_kind kind, const char *names) {
    while (*names && c->count < GF_TABLE_COLUMNS_MAX) {
        const size_t n = strcspn(names, " "), some = GF_MIN(n, (size_t)GF_COLUMN_NAME - 1);
        gf_table_column *to = &c->at[c->count++];
        memcpy(to->name, names, some);
        to->name[some] = 0;
        to->kind = kind;
        names += n + (names[n] == ' ');
    }
}

/* The buffer of the next cell in a Parquet file; of a TSV the tab before it, and NULL. */
static gf_byte_buffer *next_cell(gf_lines *l) {
    const int c = l->next++;
    if (l->cells) return &l->cells[c];
    if (c > 0) GF_LINES_PUT(l, "\t");
    return NULL;
}

void gf_cell_integer(gf_lines *l, int64_t x) {
    const int32_t small = (int32_t)x;
    gf_byte_buffer *b = next_cell(l);
    if (!b) gf_lines_integer(l, x);
    else if (l->columns->at[l->next - 1].kind == GF_COLUMN_INT32) gf_byte_buffer_add(b, &small, sizeof small);
    else gf_byte_buffer_add(b, &x, sizeof x);
}

void gf_cell_real(gf_lines *l, double x) {
    const float small = (float)x;
    gf_byte_buffer *b = next_cell(l);
    if (b) gf_byte_buffer_add(b, &small, sizeof small);
    else if (isnan(x)) GF_LINES_PUT(l, "nan");
    else {
        /* 8 decimals */
        const double fixed_x = round(x * 1e8) / 1e8;
        char *p = reserve(l, GF_FIXED_BYTES);
        if (p) l->used += gf_fixed_text(p, fixed_x);
    }
}

void gf_cell_flag(gf_lines *l, int x) {
    const uint8_t flag = x != 0;
    gf_byte_buffer *b = next_cell(l);
    if (b) gf_byte_buffer_add(b, &flag, 1);
    else gf_lines_text(l, flag ? "1" : "0");
}

void gf_cell_text(gf_lines *l, const char *text) {
    gf_byte_buffer *b = next_cell(l);
    if (!b) {
        gf_lines_escaped(l, text);
        return;
    }
    uint32_t n = 0;
    char one[GF_ESCAPED_BYTES];
    for (const char *at = text; *at;) n += (uint32_t)gf_escape_next(&at, 1, one);
    gf_byte_buffer_add(b, &n, sizeof n);
    for (const char *at = text; *at;) gf_byte_buffer_add(b, one, gf_escape_next(&at, 1, one));
}

void gf_row_end(gf_lines *l) {
    if (!l->cells) GF_LINES_PUT(l, "\n");
    l->next = 0;
    l->rows++;
}

/* ----- files ----- */

typedef struct table_output {
    int fd;    /* -1: no file */
    int error; /* errno of the failed call */
    int parquet;
    gf_parquet_out table;
    char path[PATH_MAX];
} table_output;

static void put_text(table_output *s, const char *bytes, size_t n) {
    while (n > 0 && s->fd >= 0 && !s->error) {
        const ssize_t done = write(s->fd, bytes, n);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) s->error = done < 0 ? errno : ENOSPC;
        else bytes += done, n -= (size_t)done;
    }
}

static glofnd_status check_output(gf_error *err, const table_output *s) {
    FAIL_IF(err, s->error, GLOFND_E_IO, "'%.300s' cannot be written: %s", s->path, strerror(s->error));
    FAIL_IF(err, s->table.failed, GLOFND_E_MEMORY, "'%.300s' cannot be written: %s", s->path, s->table.failed);
    return GLOFND_OK;
}

static void put_parquet_bytes(void *user, const void *bytes, size_t n) { put_text(user, bytes, n); }

static glofnd_status open_output(gf_error *err, const gf_output_folder *to, const gf_table_files *t, int f, table_output *s) {
    char name[64];
    const gf_table_columns *c = t->columns[f];
    if (!t->name[f]) return GLOFND_OK;
    s->parquet = c && t->format == GF_TABLE_PARQUET;
    snprintf(name, sizeof name, "%.40s%s", t->name[f], c ? gf_table_ending(t->format) : "");
    TRY(gf_output_folder_path(err, to, name, s->path));
    s->fd = gf_open(s->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (s->fd < 0) s->error = errno;
    if (s->parquet) gf_parquet_out_begin(&s->table, c->at, c->count, put_parquet_bytes, s);
    else if (c) {
        for (int i = 0; i < c->count; i++) {
            put_text(s, c->at[i].name, strlen(c->at[i].name));
            put_text(s, i + 1 < c->count ? "\t" : "\n", 1);
        }
    }
    return check_output(err, s);
}

/* ----- waves of blocks: one is formatted while the one before is written ----- */

enum { PER_THREAD = 4 }; /* blocks of a wave: enough to keep all threads busy */

typedef gf_lines table_block[GF_TABLE_FILES_MAX];

typedef struct table_writer {
    const gf_table_files *t;
    table_output file[GF_TABLE_FILES_MAX];
    int64_t wave;               /* blocks of a wave */
    int64_t first, made, ready; /* current wave: first block, number of blocks; blocks of the previous wave */
    table_block *making, *done; /* [wave] */
} table_writer;

/* Tasks 0 .. GF_TABLE_FILES_MAX - 1 write one file each, the others format one block each. */
static void write_or_format(void *arg, int64_t task, int thread) {
    table_writer *p = arg;
    (void)thread;
    if (task < GF_TABLE_FILES_MAX) {
        for (int64_t b = 0; b < p->ready; b++) {
            table_output *s = &p->file[task];
            const gf_lines *l = &p->done[b][task];
            if (s->parquet) gf_parquet_out_add(&s->table, l->rows, l->cells);
            else put_text(s, l->at, l->used);
        }
        return;
    }
    const int64_t b = task - GF_TABLE_FILES_MAX, from = (p->first + b) * p->t->block, left = p->t->items - from;
    for (int f = 0; f < GF_TABLE_FILES_MAX; f++) {
        gf_lines *l = &p->making[b][f];
        l->used = 0, l->rows = 0;
        for (int c = 0; l->cells && c < l->columns->count; c++) l->cells[c].used = 0;
    }
    p->t->fill(p->t->arg, from, from + GF_MIN(left, p->t->block), p->making[b]);
}

static glofnd_status write_waves(gf_error *err, table_writer *p) {
    const int64_t blocks = (p->t->items + p->t->block - 1) / p->t->block;
    for (p->first = 0; p->first < blocks || p->ready > 0; p->first += p->made) {
        p->made = blocks - p->first < p->wave ? blocks - p->first : p->wave;
        gf_parallel(p->t->threads, GF_TABLE_FILES_MAX + p->made, write_or_format, p);
        for (int f = 0; f < GF_TABLE_FILES_MAX; f++) TRY(check_output(err, &p->file[f]));
        for (int64_t b = 0; b < p->made; b++)
            for (int f = 0; f < GF_TABLE_FILES_MAX; f++)
                FAIL_IF(err, p->making[b][f].failed, GLOFND_E_MEMORY, "no memory for lines of '%.300s'", p->file[f].path);
        FAIL_IF(err, p->t->watch && gf_job_stopped(p->t->watch), GLOFND_E_CANCELLED, "cancelled");
        table_block *const written = p->done;
        p->done = p->making, p->ready = p->made, p->making = written;
    }
    return GLOFND_OK;
}

static void free_wave(table_block *b, int64_t n) {
    for (int64_t i = 0; b && i < n; i++)
        for (int f = 0; f < GF_TABLE_FILES_MAX; f++) {
            const gf_lines *l = &b[i][f];
            for (int c = 0; l->cells && c < l->columns->count; c++) gf_byte_buffer_free(&l->cells[c]);
            free(l->cells);
            free(l->at);
        }
    free(b);
}

/* The blocks of a wave, empty. */
static glofnd_status make_wave(gf_error *err, const table_writer *p, table_block **out) {
    table_block *b = *out = calloc((size_t)p->wave, sizeof *b);
    FAIL_IF(err, !b, GLOFND_E_MEMORY, "no memory for lines");
    for (int64_t i = 0; i < p->wave; i++)
        for (int f = 0; f < GF_TABLE_FILES_MAX; f++) {
            gf_lines *l = &b[i][f];
            l->columns = p->t->columns[f];
            if (!p->t->name[f] || !l->columns || p->t->format != GF_TABLE_PARQUET) continue;
            l->cells = calloc((size_t)l->columns->count, sizeof *l->cells);
            FAIL_IF(err, !l->cells, GLOFND_E_MEMORY, "no memory for cells");
        }
    return GLOFND_OK;
}

glofnd_status gf_table_files_write(gf_error *err, const gf_output_folder *to, const gf_table_files *t) {
    table_writer p = {.t = t, .wave = (int64_t)PER_THREAD * GF_MAX(t->threads, 1)};
    glofnd_status status = make_wave(err, &p, &p.making);
    if (status == GLOFND_OK) status = make_wave(err, &p, &p.done);
    for (int f = 0; f < GF_TABLE_FILES_MAX; f++) p.file[f].fd = -1;
    for (int f = 0; f < GF_TABLE_FILES_MAX && status == GLOFND_OK; f++) status = open_output(err, to, t, f, &p.file[f]);
    if (status == GLOFND_OK) status = write_waves(err, &p);
    for (int f = 0; f < GF_TABLE_FILES_MAX && status == GLOFND_OK; f++) {
        if (p.file[f].parquet) gf_parquet_out_end(&p.file[f].table);
        status = check_output(err, &p.file[f]);
    }
    for (int f = 0; f < GF_TABLE_FILES_MAX; f++) {
        table_output *s = &p.file[f];
        if (s->fd >= 0 && gf_close(s->fd) != 0 && !s->error) s->error = errno;
        s->fd = -1;
        gf_parquet_out_free(&s->table);
    }
    for (int f = 0; f < GF_TABLE_FILES_MAX && status == GLOFND_OK; f++) status = check_output(err, &p.file[f]);
    free_wave(p.making, p.wave);
    free_wave(p.done, p.wave);
    return status;
}

/* ---------- .npz files ---------- */

/* The checksum of an entry is known when its bytes are written; its place is filled in then. */

enum { LOCAL_HEAD = 30, LOCAL_ZIP64 = 20, CENTRAL_HEAD = 46, CENTRAL_ZIP64 = 28, NPY_HEADER = 128, CRC_PLACE = 14 };

/* ----- bytes ----- */

static void write_bytes(gf_npz *z, const void *bytes, size_t n) {
    if (z->failed) return;
    if (fwrite(bytes, 1, n, z->f) != n) z->failed = errno ? errno : EIO;
    z->at += n;
}

static uint8_t *little_endian(uint8_t *to, uint64_t value, int bytes) {
    for (int b = 0; b < bytes; b++) *to++ = (uint8_t)(value >> 8 * b);
    return to;
}

static uint32_t low_word(const gf_npz *z, uint64_t value) { return value >= z->limit ? UINT32_MAX : (uint32_t)value; }

static int is_large(const gf_npz *z, const gf_npz_item *e) { return e->size >= z->limit || e->at >= z->limit; }

/* Fields that both headers share: version needed .. length of the name. 1 January 1980: equal arrays give equal bytes. */
static uint8_t *shared_fields(const gf_npz *z, const gf_npz_item *e, uint8_t *p) {
    p = little_endian(p, is_large(z, e) ? 45 : 20, 2);
    p = little_endian(p, 0, 2);    /* flags */
    p = little_endian(p, 0, 2);    /* stored */
    p = little_endian(p, 0, 2);    /* time */
    p = little_endian(p, 0x21, 2); /* date */
    p = little_endian(p, e->crc, 4);
    p = little_endian(p, is_large(z, e) ? UINT32_MAX : e->size, 4);
    p = little_endian(p, is_large(z, e) ? UINT32_MAX : e->size, 4);
    return little_endian(p, strlen(e->name), 2);
}

/* ----- entries ----- */

static void finish_entry(gf_npz *z) {
    uint8_t crc[4];
    if (!z->items || z->failed) return;
    assert(z->left == 0);
    little_endian(crc, z->item[z->items - 1].crc, 4);
    if (fseeko(z->f, (off_t)(z->item[z->items - 1].at + CRC_PLACE), SEEK_SET) != 0 || fwrite(crc, 1, 4, z->f) != 4 ||
        fseeko(z->f, 0, SEEK_END) != 0)
        z->failed = errno ? errno : EIO;
}

static void put_array_bytes(gf_npz *z, const void *bytes, size_t n) {
    gf_npz_item *e = &z->item[z->items - 1];
    /* CRC-32 of zip (polynomial 0x04c11db7, reflected), eight bits at a time. */
    uint32_t crc = e->crc;
    const uint8_t *crc32_bytes = bytes;
    static const uint32_t nibble[16] = {0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4,
                                        0x4db26158, 0x5005713c, 0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
                                        0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c};
    crc = ~crc;
    for (size_t i = 0; i < n; i++) {
        crc ^= crc32_bytes[i];
        crc = crc >> 4 ^ nibble[crc & 15];
        crc = crc >> 4 ^ nibble[crc & 15];
    }
    e->crc = ~crc;
    write_bytes(z, bytes, n);
}

void gf_npz_entry(gf_npz *z, const char *name, const char *descr, int rank, const int64_t *shape, size_t element) {
    char head[NPY_HEADER], tuple[80] = "";
    uint64_t bytes = element;
    assert(z->items < GF_NPZ_ENTRIES && strlen(name) <= GF_NPZ_NAME && rank >= 0 && rank <= 2);
    finish_entry(z);
    for (int k = 0; k < rank; k++) {
        snprintf(tuple + strlen(tuple), sizeof tuple - strlen(tuple),
                 rank == 1 ? "%lld,"
                 : k       ? ", %lld"
                           : "%lld",
                 (long long)shape[k]);
        bytes *= (uint64_t)shape[k];
    }
    memset(head, ' ', sizeof head);
    memcpy(head, "\x93NUMPY\x01\x00", 8);
    little_endian((uint8_t *)head + 8, NPY_HEADER - 10, 2);
    char text[NPY_HEADER];
    const int used = snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", descr, tuple);
    assert(used > 0 && used < NPY_HEADER - 11);
    memcpy(head + 10, text, (size_t)used);
    head[NPY_HEADER - 1] = '\n';
    gf_npz_item *e = &z->item[z->items++];
    *e = (gf_npz_item){.at = z->at, .size = bytes + NPY_HEADER};
    snprintf(e->name, sizeof e->name, "%.*s.npy", GF_NPZ_NAME, name);
    uint8_t local_head[LOCAL_HEAD + LOCAL_ZIP64], *p = little_endian(local_head, 0x04034b50, 4);
    p = shared_fields(z, e, p);
    p = little_endian(p, is_large(z, e) ? LOCAL_ZIP64 : 0, 2);
    write_bytes(z, local_head, LOCAL_HEAD);
    write_bytes(z, e->name, strlen(e->name));
    if (is_large(z, e)) {
        p = little_endian(local_head, 1, 2);
        p = little_endian(p, LOCAL_ZIP64 - 4, 2);
        p = little_endian(p, e->size, 8);
        little_endian(p, e->size, 8);
        write_bytes(z, local_head, LOCAL_ZIP64);
    }
    z->left = bytes;
    put_array_bytes(z, head, sizeof head);
}

void gf_npz_put(gf_npz *z, const void *bytes, size_t n) {
    assert(n <= z->left);
    z->left -= n;
    put_array_bytes(z, bytes, n);
}

/* ----- the end of the archive ----- */

glofnd_status gf_npz_open(gf_error *err, gf_npz *z, const char *path) {
    *z = (gf_npz){.limit = UINT32_MAX};
    FAIL_IF(err, strlen(path) >= sizeof z->path, GLOFND_E_ARGUMENT, "the path '%.100s...' is too long", path);
    memcpy(z->path, path, strlen(path) + 1);
    z->f = gf_stream_open(path, "w");
    FAIL_IF(err, !z->f, GLOFND_E_IO, "'%.300s' cannot be written: %s", path, strerror(errno));
    return GLOFND_OK;
}

glofnd_status gf_npz_close(gf_error *err, gf_npz *z) {
    if (!z->f) return GLOFND_OK;
    finish_entry(z);
    const uint64_t from = z->at;
    for (int k = 0; k < z->items; k++) {
        const gf_npz_item *e = &z->item[k];
        uint8_t head[CENTRAL_HEAD], *p = little_endian(head, 0x02014b50, 4);
        const int large = is_large(z, e);
        p = little_endian(p, 3 << 8 | 45, 2); /* made on Unix */
        p = shared_fields(z, e, p);
        p = little_endian(p, large ? CENTRAL_ZIP64 : 0, 2);
        p = little_endian(p, 0, 2);                       /* comment */
        p = little_endian(p, 0, 2);                       /* disk */
        p = little_endian(p, 0, 2);                       /* kind of data */
        p = little_endian(p, (uint64_t)0100644 << 16, 4); /* an ordinary file */
        little_endian(p, large ? UINT32_MAX : e->at, 4);
        write_bytes(z, head, CENTRAL_HEAD);
        write_bytes(z, e->name, strlen(e->name));
        if (large) {
            p = little_endian(head, 1, 2);
            p = little_endian(p, CENTRAL_ZIP64 - 4, 2);
            p = little_endian(p, e->size, 8);
            p = little_endian(p, e->size, 8);
            little_endian(p, e->at, 8);
            write_bytes(z, head, CENTRAL_ZIP64);
        }
    }
    const uint64_t size = z->at - from;
    uint8_t head[76], *p;
    const uint64_t here = z->at;
    if (from >= z->limit || size >= z->limit) {
        p = little_endian(head, 0x06064b50, 4);
        p = little_endian(p, 44, 8);
        p = little_endian(p, 3 << 8 | 45, 2);
        p = little_endian(p, 45, 2);
        p = little_endian(p, 0, 8);
        p = little_endian(p, (uint64_t)z->items, 8);
        p = little_endian(p, (uint64_t)z->items, 8);
        p = little_endian(p, size, 8);
        p = little_endian(p, from, 8);
        p = little_endian(p, 0x07064b50, 4);
        p = little_endian(p, 0, 4);
        p = little_endian(p, here, 8);
        p = little_endian(p, 1, 4);
        write_bytes(z, head, (size_t)(p - head));
    }
    p = little_endian(head, 0x06054b50, 4);
    p = little_endian(p, 0, 4);
    p = little_endian(p, (uint64_t)z->items, 2);
    p = little_endian(p, (uint64_t)z->items, 2);
    p = little_endian(p, low_word(z, size), 4);
    p = little_endian(p, low_word(z, from), 4);
    p = little_endian(p, 0, 2);
    write_bytes(z, head, (size_t)(p - head));
    if (fclose(z->f) != 0 && !z->failed) z->failed = errno;
    z->f = NULL;
    FAIL_IF(err, z->failed, GLOFND_E_IO, "'%.300s' cannot be written: %s", z->path, strerror(z->failed));
    return GLOFND_OK;
}
