// kafka-go: the contract's verbs (see ../README.md).
package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"coreflume/interop/contract"

	"github.com/segmentio/kafka-go"
)

var codecs = map[string]kafka.Compression{
	"none": 0, "gzip": kafka.Gzip, "snappy": kafka.Snappy, "lz4": kafka.Lz4, "zstd": kafka.Zstd,
}

// Its Reader gives nil for what is empty, so that null and empty cannot be told apart.
var lacks = map[string]string{
	"empty-key":    "the Reader gives an empty key as null",
	"empty-value":  "the Reader gives an empty value as null",
	"empty-header": "the Reader gives an empty header as null",
}

type program struct{ client kafka.Client }

func main() {
	contract.Main(func(brokers string) contract.Client {
		p := program{kafka.Client{Addr: kafka.TCP(brokers)}}
		return contract.Client{Module: "github.com/segmentio/kafka-go", Lacks: lacks, Create: p.create, Delete: p.delete,
			Produce: p.produce, Read: p.read, Lookup: p.lookup, Admin: p.admin, Member: p.member}
	})
}

func (p program) create(ctx context.Context, topic string, partitions int32) error {
	answer, err := p.client.CreateTopics(ctx, &kafka.CreateTopicsRequest{
		Topics: []kafka.TopicConfig{{Topic: topic, NumPartitions: int(partitions), ReplicationFactor: 1}}})
	if err != nil {
		return err
	}
	return answer.Errors[topic]
}

func (p program) delete(ctx context.Context, topic string) error {
	answer, err := p.client.DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: []string{topic}})
	if err != nil {
		return err
	}
	return answer.Errors[topic]
}

func (p program) produce(ctx context.Context, how contract.How, records []contract.Record) ([]int64, error) {
	if how.Idempotent {
		return nil, contract.Unsupported("no idempotent producer in kafka-go")
	}
	var lock sync.Mutex
	var offsets []int64
	writer := &kafka.Writer{Addr: p.client.Addr, Topic: how.Topic, RequiredAcks: kafka.RequiredAcks(how.Acks),
		Compression: codecs[how.Codec], BatchTimeout: 20 * time.Millisecond, BatchBytes: contract.Largest,
		Balancer: kafka.BalancerFunc(func(m kafka.Message, _ ...int) int { return m.Partition }),
		Completion: func(written []kafka.Message, _ error) {
			lock.Lock()
			defer lock.Unlock()
			for _, m := range written {
				offsets = append(offsets, m.Offset)
			}
		}}
	messages := make([]kafka.Message, len(records))
	for i, r := range records {
		m := kafka.Message{Partition: int(r.Partition), Key: r.Key, Value: r.Value, Time: time.UnixMilli(r.Timestamp)}
		for _, h := range r.Headers {
			m.Headers = append(m.Headers, kafka.Header{Key: h.Name, Value: h.Value})
		}
		messages[i] = m
	}
	if err := writer.WriteMessages(ctx, messages...); err != nil {
		if all, ok := err.(kafka.WriteErrors); ok {
			err = all[0]
		}
		return nil, err
	}
	return offsets, writer.Close()
}

func (p program) offset(ctx context.Context, topic string, request kafka.OffsetRequest) (kafka.PartitionOffsets, error) {
	answer, err := p.client.ListOffsets(ctx, &kafka.ListOffsetsRequest{
		Topics: map[string][]kafka.OffsetRequest{topic: {request}}})
	if err != nil {
		return kafka.PartitionOffsets{}, err
	}
	found := answer.Topics[topic]
	if len(found) != 1 {
		return kafka.PartitionOffsets{}, fmt.Errorf("%d answers for one partition", len(found))
	}
	return found[0], found[0].Error
}

func (p program) read(ctx context.Context, topic string, partitions int32, put func(contract.Record) error) error {
	for partition := range int(partitions) {
		last, err := p.offset(ctx, topic, kafka.LastOffsetOf(partition))
		if err != nil {
			return err
		}
		if last.LastOffset > 0 {
			if err := p.readOne(ctx, topic, partition, last.LastOffset, put); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p program) readOne(ctx context.Context, topic string, partition int, end int64,
	put func(contract.Record) error) error {
	reader := kafka.NewReader(kafka.ReaderConfig{Brokers: []string{p.client.Addr.String()}, Topic: topic,
		Partition: partition, MaxBytes: contract.Largest, MaxWait: 100 * time.Millisecond})
	defer reader.Close()
	for {
		m, err := reader.ReadMessage(ctx)
		if err != nil {
			return fmt.Errorf("partition %d up to offset %d: %w", partition, end, err)
		}
		r := contract.Record{Partition: int32(m.Partition), Key: m.Key, Value: m.Value,
			Timestamp: m.Time.UnixMilli(), Offset: m.Offset}
		for _, h := range m.Headers {
			r.Headers = append(r.Headers, contract.Header{Name: h.Key, Value: h.Value})
		}
		if err := put(r); err != nil || m.Offset+1 >= end {
			return err
		}
	}
}

func (p program) lookup(ctx context.Context, topic string, partition int32, timestamp int64) (int64, error) {
	found, err := p.offset(ctx, topic, kafka.TimeOffsetOf(int(partition), time.UnixMilli(timestamp)))
	for offset := range found.Offsets { // Exactly the one asked for.
		return offset, err
	}
	return -1, err
}
