#include "admin/ca.h"

#include "server/authority.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXIT_BAD_USE = 2 };

static const char help[] =
    "sluice ca init --dir DIR [--permit DOMAIN,...]   make a CA: DIR/ca.pem and DIR/ca-key.pem (mode 0600)\n"
    "sluice ca show --dir DIR                         print its certificate\n\n"
    "Then set ca_dir = DIR in [proxy] and https = intercept for the destinations that want it, and let callers trust\n"
    "DIR/ca.pem. --permit restricts the CA, for callers that look at it, to these domains and what is below them.\n";

static int init(const char *dir, const char *permitted)
{
    struct err err = {0};

    if (authority_create(dir, permitted, &err)) {
        printf("%s/ca.pem    for callers to trust\n%s/ca-key.pem    for sluice alone; keep it so\n", dir, dir);
        return EXIT_SUCCESS;
    }
    err_print(&err, "sluice: ");
    err_fini(&err);
    return EXIT_FAILURE;
}

static int show(const char *dir)
{
    struct err err = {0};

    if (authority_show(dir, stdout, &err)) {
        return EXIT_SUCCESS;
    }
    err_print(&err, "sluice: ");
    err_fini(&err);
    return EXIT_FAILURE;
}

int ca_command(int argc, char **argv)
{
    static const struct option known[] = {{"dir", required_argument, NULL, 'd'},
                                          {"permit", required_argument, NULL, 'p'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    const char *dir = NULL, *permitted = NULL;
    int found;

    while ((found = getopt_long(argc, argv, "h", known, NULL)) != -1) {
        if (found == 'h') {
            fputs(help, stdout);
            return EXIT_SUCCESS;
        }
        if (found != 'd' && found != 'p') {
            return EXIT_BAD_USE;
        }
        *(found == 'd' ? &dir : &permitted) = optarg;
    }
    const char *word = optind + 1 == argc ? argv[optind] : "";
    if (dir != NULL && strcmp(word, "init") == 0) {
        return init(dir, permitted);
    }
    if (dir != NULL && strcmp(word, "show") == 0 && permitted == NULL) {
        return show(dir);
    }
    fputs(help, stderr);
    return EXIT_BAD_USE;
}
