#ifndef SLUICE_ADMIN_CA_H
#define SLUICE_ADMIN_CA_H
/* sluice ca init|show: the CA of https = intercept. Words behind "ca"; returns the exit code. */
int ca_command(int argc, char **argv);

#endif
