// franz-go: the contract's verbs (see ../README.md).
package main

import (
	"context"
	"fmt"
	"time"

	"coreflume/interop/contract"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

var codecs = map[string]kgo.CompressionCodec{
	"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
	"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
}

var acks = map[int16]kgo.Acks{0: kgo.NoAck(), 1: kgo.LeaderAck(), -1: kgo.AllISRAcks()}

type program struct{ brokers string }

func main() {
	contract.Main(func(brokers string) contract.Client {
		p := program{brokers}
		return contract.Client{Module: "github.com/twmb/franz-go", Create: p.create, Delete: p.delete,
			Produce: p.produce, Read: p.read, Lookup: p.lookup, Admin: p.admin, Member: p.member}
	})
}

func (p program) client(options ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append(options, kgo.SeedBrokers(p.brokers))...)
}

// withAdmin runs one action of an admin client.
func (p program) withAdmin(action func(admin *kadm.Client) error) error {
	client, err := p.client()
	if err != nil {
		return err
	}
	defer client.Close()
	return action(kadm.NewClient(client))
}

func (p program) create(ctx context.Context, topic string, partitions int32) error {
	return p.withAdmin(func(admin *kadm.Client) error {
		_, err := admin.CreateTopic(ctx, partitions, -1, nil, topic)
		return err
	})
}

func (p program) delete(ctx context.Context, topic string) error {
	return p.withAdmin(func(admin *kadm.Client) error {
		_, err := admin.DeleteTopic(ctx, topic)
		return err
	})
}

func (p program) produce(ctx context.Context, how contract.How, records []contract.Record) ([]int64, error) {
	options := []kgo.Opt{kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(codecs[how.Codec]), kgo.RequiredAcks(acks[how.Acks]),
		kgo.ProducerBatchMaxBytes(contract.Largest), kgo.ProducerLinger(20 * time.Millisecond)}
	if !how.Idempotent {
		options = append(options, kgo.DisableIdempotentWrite())
	} else if how.Acks != -1 {
		return nil, contract.Unsupported("franz-go refuses idempotence with acks other than all")
	}
	client, err := p.client(options...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	sent := make([]*kgo.Record, len(records))
	for i, r := range records {
		sent[i] = &kgo.Record{Topic: how.Topic, Partition: r.Partition, Key: r.Key, Value: r.Value,
			Timestamp: time.UnixMilli(r.Timestamp)}
		for _, h := range r.Headers {
			sent[i].Headers = append(sent[i].Headers, kgo.RecordHeader{Key: h.Name, Value: h.Value})
		}
	}
	if err := client.ProduceSync(ctx, sent...).FirstErr(); err != nil {
		return nil, err
	}
	offsets := make([]int64, len(sent))
	for i, record := range sent {
		offsets[i] = record.Offset
	}
	return offsets, nil
}

func (p program) read(ctx context.Context, topic string, _ int32, put func(contract.Record) error) error {
	client, err := p.client()
	if err != nil {
		return err
	}
	defer client.Close()
	listed, err := kadm.NewClient(client).ListEndOffsets(ctx, topic)
	if err != nil {
		return err
	}
	ends, starts := map[int32]int64{}, map[int32]kgo.Offset{}
	listed.Each(func(end kadm.ListedOffset) {
		if end.Offset > 0 {
			ends[end.Partition], starts[end.Partition] = end.Offset, kgo.NewOffset().At(0)
		}
	})
	client.AddConsumePartitions(map[string]map[int32]kgo.Offset{topic: starts})
	for len(ends) > 0 {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return err
		}
		for _, record := range fetches.Records() {
			if err := put(recordOf(record)); err != nil {
				return err
			}
			if record.Offset+1 >= ends[record.Partition] {
				delete(ends, record.Partition)
			}
		}
	}
	return nil
}

func recordOf(record *kgo.Record) contract.Record {
	r := contract.Record{Partition: record.Partition, Key: record.Key, Value: record.Value,
		Timestamp: record.Timestamp.UnixMilli(), Offset: record.Offset}
	for _, h := range record.Headers {
		r.Headers = append(r.Headers, contract.Header{Name: h.Key, Value: h.Value})
	}
	return r
}

func (p program) lookup(ctx context.Context, topic string, partition int32, timestamp int64) (int64, error) {
	offset := int64(-1) // kadm gives the end where no record is late enough.
	err := p.withAdmin(func(admin *kadm.Client) error {
		found, err := admin.ListOffsetsAfterMilli(ctx, timestamp, topic)
		if err != nil {
			return err
		}
		at, ok := found.Lookup(topic, partition)
		if !ok {
			return fmt.Errorf("no answer for partition %d", partition)
		}
		if at.Timestamp >= 0 {
			offset = at.Offset
		}
		return at.Err
	})
	return offset, err
}
