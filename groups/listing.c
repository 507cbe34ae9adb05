/* ListGroups: the groups of a coordinator that match the filters. */
#include "groups/listing.h"

#include <strings.h>

#include "groups/classic.h"
#include "groups/consumer.h"
#include "groups/group.h"
#include "kafka/proto/list_groups.h"

/* Kafka compares the words of both filters without regard to case. */
static bool is_listed(const struct slice *words, size_t count, struct slice word)
{
    for (size_t i = 0; i < count; i++) {
        if (words[i].size == word.size && !slice_is_null(words[i]) && !slice_is_null(word) &&
            strncasecmp((const char *)words[i].data, (const char *)word.data, word.size) == 0) {
            return true;
        }
    }
    return count == 0;
}

bool listing_fill(const struct group *g,
                  const struct list_groups_request *in,
                  struct list_groups_response_group *out)
{
    const bool is_consumer = g->consumer != NULL;
    const char *state = is_consumer ? consumer_state_name(g) : classic_state_name(g);
    list_groups_response_group_init(out);
    out->group_id = group_id(g);
    out->protocol_type = is_consumer ? slice_of_string("consumer") : classic_protocol_type(g);
    out->group_state = slice_of_string(state);
    out->group_type = slice_of_string(is_consumer ? "consumer" : "classic");
    return group_exists(g) &&
           is_listed(in->states_filter, in->states_filter_count, out->group_state) &&
           is_listed(in->types_filter, in->types_filter_count, out->group_type);
}
