/* The C compiler that packs are built with: CC, or cc.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BASE_COMPILER_H
#define KVMILL_BASE_COMPILER_H

/* The first line of its --version, or "unknown".  It is asked once. */
enum { COMPILER_SIZE = 128 };
void compiler_words(char words[COMPILER_SIZE]);

#endif
