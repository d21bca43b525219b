/* Whether other programs ran during the demo; printed at its end. */
#ifndef DEMO_BUSY_H
#define DEMO_BUSY_H

#include <stdio.h>
#include <sys/resource.h>

/* Prints a remark if other programs had the processor for 5 % of the time.  Each keeps it for about
   3 ms. */
static inline void say_if_busy(double seconds) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    if ((double)used.ru_nivcsw * 3e-3 > 0.05 * seconds)
        printf("  Other programs kept this machine busy: do not trust these times.\n\n");
}

#endif
