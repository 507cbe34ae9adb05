/* Damage that the product has to live with without losing anything: files that it can make anew.
 */
#pragma once

#include "tests/sim/sim.h"

/* Perhaps spoils an index or a checkpoint: a bit, a sector of noise, a point that lies, or the
 * bytes of another such file. */
void damage_derived_file(struct sim *sim);

/* Perhaps takes the vote of group 0 out of the stores. */
void damage_vote(struct sim *sim);
