/* The main function of test programs without their own.

   SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "program.h"

/* `make check` sets it; a program that is run by hand is not in the directory of the command, whose
   places it does not know. */
int main(int argc, char **argv) {
    (void)argc;
    setenv("KVMILL_DATADIR", KVMILL_SOURCEDIR, 0);
    return run_tests(argv + 1);
}
