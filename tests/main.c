/* The main function of test programs without their own.

   SPDX-License-Identifier: Apache-2.0 */
#include "program.h"

int main(int argc, char **argv) {
    (void)argc;
    return run_tests(argv + 1);
}
