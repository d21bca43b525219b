/* A race that takes no time, in place of the timer's: each contender runs twice; the n-th takes n
   seconds.

   SPDX-License-Identifier: Apache-2.0 */
#include "../base/timer.h"

void timer_race(struct contender *contenders, int count, double seconds) {
    (void)seconds;
    for (int i = 0; i < count; i++) {
        for (int64_t k = 0; k < 2; k++)
            contenders[i].run(contenders[i].context, k);
        contenders[i].median = i + 1;
    }
}
