/* SPDX-License-Identifier: Apache-2.0 */
#include "regret.h"

#include <math.h>

void regret_add(struct regret *regret, const struct sweep *sweep, const struct ranking *ranking) {
    if (ranking->winner < 0)
        return;
    double loss = ranking->items[ranking->winner].gain.median;
    regret->logarithms += log(loss);
    regret->sweeps++;
    if (loss > regret->worst) {
        regret->worst = loss;
        regret->where = sweep;
    }
}

double regret_mean(const struct regret *regret) {
    return regret->sweeps > 0 ? exp(regret->logarithms / regret->sweeps) : 1;
}
