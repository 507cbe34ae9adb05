/* ListPartitionReassignments: with one node nothing ever moves. */
#include "kafka/proto/list_partition_reassignments.h"

#include "kafka/handlers/handlers.h"
#include "kafka/request.h"

void handle_list_partition_reassignments(struct request *r)
{
    struct list_partition_reassignments_response out;
    list_partition_reassignments_response_init(&out);
    out.error_message = (struct slice){0};
    request_answer(r, &out);
}
