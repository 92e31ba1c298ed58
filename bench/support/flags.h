/* flags.h - numbers of a benchmark's command line, and errors for wrong ones: exit status 2. */
#pragma once

_Noreturn void flag_misused(const char *program, const char *flag, const char *text);
/* The number behind argv[*i], which moves there. */
int flag_number(const char *program, int argc, char **argv, int *i, int low, int high);
