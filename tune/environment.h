/* The state of the machine during a measurement, and whether it is fit for measuring.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TUNE_ENVIRONMENT_H
#define KVMILL_TUNE_ENVIRONMENT_H

#include "../base/text.h"

enum { WORD_SIZE = 32, CPU_SIZE = 128, MOST_CACHES = 3 };

/* "unknown" and -1 where the system does not say. */
struct environment {
    char cpu[CPU_SIZE]; /* "GenuineIntel 6-207-2 Intel(R) Xeon(R) Processor": model and stepping,
                           too */
    char governor[WORD_SIZE]; /* of the clock: "performance", "powersave", ... */
    char turbo[WORD_SIZE];    /* "on", "off" */
    char smt[WORD_SIZE];      /* "on", "off": whether cores are shared by two threads */
    char virtual[WORD_SIZE];  /* "none", or who made the machine up: "kvm", "docker", ... */
    double load;              /* runnable threads, mean of the last minute */
    double quota;             /* processors that the control group may use; 0: all */
    int processors;           /* that this process may use */
    int cache_kib[MOST_CACHES]; /* of the first processor: data of level 1, levels 2 and 3; 0: none,
                                   or unknown */
};

/* Reads files below `root`, "" for those of the system; what cannot be read is unknown. */
void environment_read(const char *root, struct environment *environment);

/* The same for the CPU alone.  false: EXIT_ENVIRONMENT; it is only unknown for now. */
bool environment_read_cpu(const char *root, char cpu[CPU_SIZE], struct error *error);

/* Processors that this process may use: those that it is bound to, if it is. */
int environment_processors(void);

/* "governor=performance turbo=off smt=off virtual=kvm load=0.12 quota=all processors=2"; all but
   the CPU, which is in the key of a sweep.  false: out of memory. */
bool environment_print(const struct environment *environment, struct text *text);

enum grade { GRADE_NOTE, GRADE_WARNING, GRADE_UNFIT };

struct remark {
    enum grade grade;
    char text[160]; /* what it is, what it does, what to do about it */
};

enum { MOST_REMARKS = 8 };

/* What to say before measuring on `threads` threads; returns how many remarks there are. */
int environment_remarks(const struct environment *environment, int threads,
                        struct remark remarks[MOST_REMARKS]);

/* "note", "warning", "unfit"; constant. */
const char *grade_word(enum grade grade);

#endif
