/* What request.c and dispatch.c share. */
#pragma once

struct request;

/* Nothing holds r any more: its memory goes back to the pool. */
void dispatch_recycle(struct request *r);

/* r was answered just now. */
void dispatch_count_answer(struct request *r);
