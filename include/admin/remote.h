#ifndef SLUICE_ADMIN_REMOTE_H
#define SLUICE_ADMIN_REMOTE_H
/* The commands that talk to a running sluice over its [admin] address: status, top, pause and so on. */
#include <stdbool.h>

bool remote_knows(const char *word);
/* argv[0] is the command's word; returns the exit code. */
int remote_command(int argc, char **argv);

#endif
