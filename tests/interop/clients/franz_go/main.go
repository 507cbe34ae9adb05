// franz-go: the contract's verbs (see ../README.md).
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// line is a record of the contract; encoding/json gives bytes as base64 and nil as null.
type line struct {
	Partition int32    `json:"partition"`
	Key       []byte   `json:"key"`
	Value     []byte   `json:"value"`
	Headers   []header `json:"headers"`
	Timestamp int64    `json:"timestamp"`
	Offset    *int64   `json:"offset,omitempty"`
}

type header struct {
	name  string
	value []byte
}

func (h header) MarshalJSON() ([]byte, error) { return json.Marshal([]any{h.name, h.value}) }

func (h *header) UnmarshalJSON(data []byte) error {
	return json.Unmarshal(data, &[]any{&h.name, &h.value})
}

type unsupported string

func (u unsupported) Error() string { return string(u) }

const largest = 16 << 20 // The broker's limit is what is tested, not the client's.

var codecs = map[string]kgo.CompressionCodec{
	"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
	"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
}

var acks = map[string]kgo.Acks{"0": kgo.NoAck(), "1": kgo.LeaderAck(), "-1": kgo.AllISRAcks()}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	out := bufio.NewWriter(os.Stdout)
	err := run(ctx, json.NewEncoder(out), os.Args[1], os.Args[2], os.Args[3:])
	var why unsupported
	if errors.As(err, &why) {
		err = json.NewEncoder(out).Encode(map[string]string{"unsupported": string(why)})
	}
	out.Flush()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func number(text string) int64 {
	value, _ := strconv.ParseInt(text, 10, 64)
	return value
}

func run(ctx context.Context, out *json.Encoder, brokers, verb string, args []string) error {
	switch verb {
	case "versions":
		return out.Encode(map[string]any{"client": "franz-go", "version": version("github.com/twmb/franz-go")})
	case "produce":
		return produce(ctx, out, brokers, args)
	case "read":
		return read(ctx, out, brokers, args[0])
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers))
	if err != nil {
		return err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	switch verb {
	case "create":
		_, err = admin.CreateTopic(ctx, int32(number(args[1])), -1, nil, args[0])
	case "delete":
		_, err = admin.DeleteTopic(ctx, args[0])
	case "lookup":
		var found kadm.ListedOffsets
		found, err = admin.ListOffsetsAfterMilli(ctx, number(args[2]), args[0])
		at, ok := found.Lookup(args[0], int32(number(args[1])))
		if err == nil && (!ok || at.Err != nil) {
			err = fmt.Errorf("no offset: %v", at.Err)
		}
		if err == nil && at.Timestamp < 0 {
			at.Offset = -1 // kadm gives the end where no record is late enough.
		}
		if err == nil {
			err = out.Encode(map[string]int64{"offset": at.Offset, "timestamp": at.Timestamp})
		}
	default:
		err = unsupported("no " + verb + " in this client")
	}
	return err
}

func version(module string) string {
	info, _ := debug.ReadBuildInfo()
	for _, dependency := range info.Deps {
		if dependency.Path == module {
			return dependency.Version
		}
	}
	return "unknown"
}

func produce(ctx context.Context, out *json.Encoder, brokers string, args []string) error {
	options := []kgo.Opt{kgo.SeedBrokers(brokers), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(codecs[args[1]]), kgo.RequiredAcks(acks[args[2]]),
		kgo.ProducerBatchMaxBytes(largest), kgo.ProducerLinger(20 * time.Millisecond)}
	if args[3] == "0" {
		options = append(options, kgo.DisableIdempotentWrite())
	} else if args[2] != "-1" {
		return unsupported("franz-go refuses idempotence with acks other than all")
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return err
	}
	defer client.Close()
	var records []*kgo.Record
	for in := json.NewDecoder(os.Stdin); in.More(); {
		var l line
		if err := in.Decode(&l); err != nil {
			return err
		}
		record := &kgo.Record{Topic: args[0], Partition: l.Partition, Key: l.Key, Value: l.Value,
			Timestamp: time.UnixMilli(l.Timestamp)}
		for _, h := range l.Headers {
			record.Headers = append(record.Headers, kgo.RecordHeader{Key: h.name, Value: h.value})
		}
		records = append(records, record)
	}
	if err := client.ProduceSync(ctx, records...).FirstErr(); err != nil {
		return err
	}
	for _, record := range records {
		if err := out.Encode(map[string]int64{"partition": int64(record.Partition), "offset": record.Offset}); err != nil {
			return err
		}
	}
	return nil
}

func read(ctx context.Context, out *json.Encoder, brokers, topic string) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers))
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
			l := line{Partition: record.Partition, Key: record.Key, Value: record.Value, Headers: []header{},
				Timestamp: record.Timestamp.UnixMilli(), Offset: &record.Offset}
			for _, h := range record.Headers {
				l.Headers = append(l.Headers, header{h.Key, h.Value})
			}
			if err := out.Encode(l); err != nil {
				return err
			}
			if record.Offset+1 >= ends[record.Partition] {
				delete(ends, record.Partition)
			}
		}
	}
	return nil
}
