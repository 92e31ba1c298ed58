/* cmd_report.c - glofnd report: a table on stdout and a self-contained page about one or more runs. */
#include <stdio.h>

#include "cli.h"
#include "io/blockfile.h"
#include "report/page.h"
#include "report/summary.h"

static const char usage[] = "glofnd report RUN... --out report.html";

static glofnd_status write_file(gf_error *err, const gf_text *text, const char *path) {
    gf_writer w;
    TRY(gf_writer_open(&w, err, path));
    gf_put(&w, text->at, text->used);
    const glofnd_status status = gf_writer_commit(&w);
    gf_writer_close(&w);
    return status;
}

static glofnd_status report(gf_error *err, const gf_run_log *runs, int count, const char *path) {
    gf_text table = {0}, page = {0};
    gf_summary_text(&table, runs, count);
    gf_page(&page, runs, count);
    glofnd_status status = table.failed || page.failed ? gf_fail(err, GLOFND_E_MEMORY, "no memory for the page") : GLOFND_OK;
    if (status == GLOFND_OK) status = write_file(err, &page, path);
    if (status == GLOFND_OK) fputs(table.at, stdout);
    gf_text_free(&table);
    gf_text_free(&page);
    return status;
}

int cmd_report(int argc, char **argv) {
    const char *out = NULL;
    const cli_flag flags[] = {{"out", "FILE.html", "page to write", &out}};
    static gf_run_log runs[GF_PAGE_RUNS];
    int n, count = 0;
    const int code = cli_parse(usage, flags, 1, argc, argv, &n);
    if (code != CLI_OK) return code < 0 ? CLI_OK : code;
    if (n < 1 || n > GF_PAGE_RUNS || !out) {
        fprintf(stderr, "usage: %s   (1 to %d runs)\n", usage, GF_PAGE_RUNS);
        return CLI_USAGE;
    }
    gf_error err = {{0}};
    glofnd_status status = GLOFND_OK;
    for (; count < n && status == GLOFND_OK; count++) status = gf_run_log_read(&err, argv[1 + count], &runs[count]);
    if (status == GLOFND_OK) status = report(&err, runs, n, out);
    for (int i = 0; i < count; i++) gf_run_log_free(&runs[i]);
    return status == GLOFND_OK ? CLI_OK : cli_failed("report", status, &err);
}
