/* What coordinator.c and proposal.c share. */
#pragma once

#include "groups/group.h"

/* p is on its way: closes the gate for what must not run beside it. */
void group_on_proposed(struct proposal *p);
