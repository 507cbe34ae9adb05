/* One function per API, each in the file of that name. What they have in common: r->in is the
 * decoded request; they answer it once (request.h), whatever happens.
 *
 * Shard: the connection's.
 */
#pragma once

struct request;

void handle_api_versions(struct request *r);
void handle_create_topics(struct request *r);
void handle_delete_records(struct request *r);
void handle_delete_topics(struct request *r);
void handle_fetch(struct request *r);
void handle_find_coordinator(struct request *r);
void handle_init_producer_id(struct request *r);
void handle_list_offsets(struct request *r);
void handle_metadata(struct request *r);
void handle_produce(struct request *r);
