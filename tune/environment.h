/* The state of the machine during a measurement, and whether it is fit for measuring.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TUNE_ENVIRONMENT_H
#define KVMILL_TUNE_ENVIRONMENT_H

#include "../base/text.h"

enum { WORD_SIZE = 32, CPU_SIZE = 128, MOST_CACHES = 3 };

/* Members are "unknown" or -1 if the system does not tell. */
struct environment {
    char cpu[CPU_SIZE]; /* "GenuineIntel 6-207-2 Intel(R) Xeon(R) Processor": model and stepping,
                           too */
    char governor[WORD_SIZE]; /* the clock's: "performance", "powersave", ... */
    char turbo[WORD_SIZE];    /* "on", "off" */
    char smt[WORD_SIZE];      /* "on", "off": whether two threads share a core */
    char virtual[WORD_SIZE];  /* "none", or the virtual machine's maker: "kvm", "vmware", ... */
    double load;              /* mean number of runnable threads in the last minute */
    double quota;             /* processors that the control group may use; 0: all */
    int processors;           /* that this process may use */
    int cache_kib[MOST_CACHES]; /* of the first processor: data of level 1, levels 2 and 3; 0: none,
                                   or unknown */
};

/* Reads the environment from files in the directory `root`, "" for the system's.  Members that
   cannot be read are unknown. */
void environment_read(const char *root, struct environment *environment);

/* Reads only the CPU.  Returns false, with EXIT_ENVIRONMENT, if /proc/cpuinfo exists but cannot be
   opened now. */
bool environment_read_cpu(const char *root, char cpu[CPU_SIZE], struct error *error);

/* Returns how many processors this process may use: those that it is bound to, if it is. */
int environment_processors(void);

/* Prints "governor=performance turbo=off smt=off virtual=kvm load=0.12 quota=all processors=2".
   Leaves out the CPU, which is in the key of a sweep.  Returns false if out of memory. */
bool environment_print(const struct environment *environment, struct text *text);

enum grade { GRADE_NOTE, GRADE_WARNING, GRADE_UNFIT };

struct remark {
    enum grade grade;
    char text[160]; /* the cause, its effect, and what to do about it */
};

enum { MOST_REMARKS = 8 };

/* Makes remarks about measuring on `threads` threads.  Returns how many. */
int environment_remarks(const struct environment *environment, int threads,
                        struct remark remarks[MOST_REMARKS]);

/* Returns "note", "warning" or "unfit", a constant. */
const char *grade_word(enum grade grade);

#endif
