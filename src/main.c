/* Options, and what each of them begins. */
#include "admin/ca.h"
#include "admin/remote.h"
#include "app/app.h"
#include "conf/load.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum action { ACTION_RUN, ACTION_CHECK, ACTION_DUMP };
struct options {
    enum action action;
    const char *file;
};

static void print_help(FILE *out)
{
    fputs("sluice: a forward proxy that queues calls per third party and lets them out at a constant rate\n\n"
          "  sluice -c FILE                  run with this INI file\n"
          "  sluice -c FILE --check          check it, and print what would happen to each destination\n"
          "  sluice -c FILE --dump-config    print every setting in force\n"
          "  sluice --help-config            print every key with its type, default and meaning\n"
          "  sluice ca init|show --dir DIR   the CA of https = intercept\n"
          "  sluice top                      watch a running sluice in the terminal (it needs a section [admin])\n"
          "  sluice status|pause|resume|set-rate|purge|drain|reload|log-level\n"
          "                                  ask and tell a running sluice; sluice status --help says how\n"
          "  sluice --version\n"
          "  sluice --help\n\n"
          "Callers then set HTTP_PROXY=http://127.0.0.1:3128 (and HTTPS_PROXY).\n"
          "Signals: TERM drains and ends (a second one ends at once), HUP reads the settings again,\n"
          "USR1 opens the log file again.\n",
          out);
}

/* Ends the program where nothing is left to do. */
static struct options parse_options(int argc, char **argv)
{
    static const struct option known[] = {
        {"config", required_argument, NULL, 'c'},
        {"check", no_argument, NULL, 'k'},
        {"dump-config", no_argument, NULL, 'd'},
        {"help-config", no_argument, NULL, 'H'},
        {"manual", no_argument, NULL, 'M'}, /* for `make install`: sluice.ini(5) */
        {"version", no_argument, NULL, 'V'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    struct options options = {.action = ACTION_RUN};
    int found;

    while ((found = getopt_long(argc, argv, "c:hV", known, NULL)) != -1) {
        switch (found) {
        case 'c':
            options.file = optarg;
            break;
        case 'k':
            options.action = ACTION_CHECK;
            break;
        case 'd':
            options.action = ACTION_DUMP;
            break;
        case 'H':
            conf_help(stdout);
            exit(EXIT_SUCCESS);
        case 'M':
            conf_manual(stdout);
            exit(EXIT_SUCCESS);
        case 'V':
            puts("sluice " SLUICE_VERSION);
            exit(EXIT_SUCCESS);
        case 'h':
            print_help(stdout);
            exit(EXIT_SUCCESS);
        default:
            fputs("try: sluice --help\n", stderr);
            exit(APP_BAD_CONFIG);
        }
    }
    if (optind < argc || options.file == NULL) {
        fprintf(stderr,
                optind < argc ? "sluice: unexpected argument \"%s\"; try: sluice --help\n"
                              : "sluice: which configuration? try: sluice -c FILE\n",
                optind < argc ? argv[optind] : "");
        exit(APP_BAD_CONFIG);
    }
    return options;
}

static struct conf *load_conf(const char *file)
{
    struct err err = {0};
    struct err warnings = {0};
    struct conf *conf = conf_load(file, &err, &warnings);

    err_print(&warnings, "sluice: warning: ");
    err_print(&err, "sluice: ");
    err_fini(&err);
    err_fini(&warnings);
    if (conf == NULL) {
        exit(APP_BAD_CONFIG);
    }
    return conf;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "ca") == 0) {
        return ca_command(argc - 1, argv + 1);
    }
    if (argc > 1 && remote_knows(argv[1])) {
        return remote_command(argc - 1, argv + 1);
    }
    struct options options = parse_options(argc, argv);
    struct conf *conf = load_conf(options.file);

    switch (options.action) {
    case ACTION_CHECK:
        return app_check(conf);
    case ACTION_DUMP:
        conf_dump(conf, stdout);
        break;
    case ACTION_RUN:
        return app_run(conf, options.file);
    }
    conf_free(conf);
    return EXIT_SUCCESS;
}
