#ifndef SLUICE_ADMIN_PAGE_H
#define SLUICE_ADMIN_PAGE_H
/* src/admin/page.html, as it is. */
extern const char admin_page[];

/* The Content-Security-Policy under which that page, and nothing else, runs: its own script and style by their hash,
 * connections to where it came from. Owned by the caller. */
char *page_policy(void);

#endif
