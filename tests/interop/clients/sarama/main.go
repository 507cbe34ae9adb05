// sarama: the contract's verbs (see ../README.md).
package main

import (
	"context"
	"fmt"
	"time"

	"coreflume/interop/contract"

	"github.com/IBM/sarama"
)

var codecs = map[string]sarama.CompressionCodec{
	"none": sarama.CompressionNone, "gzip": sarama.CompressionGZIP, "snappy": sarama.CompressionSnappy,
	"lz4": sarama.CompressionLZ4, "zstd": sarama.CompressionZSTD,
}

type program struct{ brokers []string }

func main() {
	contract.Main(func(brokers string) contract.Client {
		p := program{[]string{brokers}}
		return contract.Client{Module: "github.com/IBM/sarama", Create: p.create, Delete: p.delete,
			Produce: p.produce, Read: p.read, Lookup: p.lookup, Admin: p.admin, Member: p.member}
	})
}

func config() *sarama.Config {
	c := sarama.NewConfig()
	c.Version = sarama.MaxVersion
	return c
}

func (p program) create(_ context.Context, topic string, partitions int32) error {
	admin, err := sarama.NewClusterAdmin(p.brokers, config())
	if err != nil {
		return err
	}
	defer admin.Close()
	return admin.CreateTopic(topic, &sarama.TopicDetail{NumPartitions: partitions, ReplicationFactor: -1}, false)
}

func (p program) delete(_ context.Context, topic string) error {
	admin, err := sarama.NewClusterAdmin(p.brokers, config())
	if err != nil {
		return err
	}
	defer admin.Close()
	return admin.DeleteTopic(topic)
}

func (p program) produce(_ context.Context, how contract.How, records []contract.Record) ([]int64, error) {
	if how.Idempotent && how.Acks != -1 {
		return nil, contract.Unsupported("sarama refuses idempotence with acks other than all")
	}
	c := config()
	c.Producer.Partitioner = sarama.NewManualPartitioner
	c.Producer.Compression = codecs[how.Codec]
	c.Producer.RequiredAcks = sarama.RequiredAcks(how.Acks)
	c.Producer.Flush.Frequency = 20 * time.Millisecond
	c.Producer.MaxMessageBytes = contract.Largest
	c.Producer.Return.Successes = true
	if how.Idempotent {
		c.Producer.Idempotent = true
		c.Net.MaxOpenRequests = 1
	}
	producer, err := sarama.NewSyncProducer(p.brokers, c)
	if err != nil {
		return nil, err
	}
	defer producer.Close()
	messages := make([]*sarama.ProducerMessage, len(records))
	for i, r := range records {
		m := &sarama.ProducerMessage{Topic: how.Topic, Partition: r.Partition, Timestamp: time.UnixMilli(r.Timestamp)}
		if r.Key != nil { // A nil slice in an Encoder would be an empty key.
			m.Key = sarama.ByteEncoder(r.Key)
		}
		if r.Value != nil {
			m.Value = sarama.ByteEncoder(r.Value)
		}
		for _, h := range r.Headers {
			m.Headers = append(m.Headers, sarama.RecordHeader{Key: []byte(h.Name), Value: h.Value})
		}
		messages[i] = m
	}
	if err := producer.SendMessages(messages); err != nil {
		if all, ok := err.(sarama.ProducerErrors); ok {
			err = all[0].Err
		}
		return nil, err
	}
	offsets := make([]int64, len(messages))
	for i, m := range messages {
		offsets[i] = m.Offset
	}
	return offsets, nil
}

func (p program) read(ctx context.Context, topic string, partitions int32, put func(contract.Record) error) error {
	client, err := sarama.NewClient(p.brokers, config())
	if err != nil {
		return err
	}
	defer client.Close()
	consumer, err := sarama.NewConsumerFromClient(client)
	if err != nil {
		return err
	}
	for partition := range partitions {
		end, err := client.GetOffset(topic, partition, sarama.OffsetNewest)
		if err != nil {
			return err
		}
		if end > 0 {
			if err := readOne(ctx, consumer, topic, partition, end, put); err != nil {
				return err
			}
		}
	}
	return consumer.Close()
}

func readOne(ctx context.Context, consumer sarama.Consumer, topic string, partition int32, end int64,
	put func(contract.Record) error) error {
	from, err := consumer.ConsumePartition(topic, partition, 0)
	if err != nil {
		return err
	}
	defer from.AsyncClose()
	for {
		select {
		case m := <-from.Messages():
			if m == nil {
				return fmt.Errorf("partition %d: closed before offset %d", partition, end)
			}
			r := contract.Record{Partition: partition, Key: m.Key, Value: m.Value,
				Timestamp: m.Timestamp.UnixMilli(), Offset: m.Offset}
			for _, h := range m.Headers {
				r.Headers = append(r.Headers, contract.Header{Name: string(h.Key), Value: h.Value})
			}
			if err := put(r); err != nil || m.Offset+1 >= end {
				return err
			}
		case <-ctx.Done():
			return fmt.Errorf("partition %d: nothing up to offset %d: %w", partition, end, ctx.Err())
		}
	}
}

func (p program) lookup(_ context.Context, topic string, partition int32, timestamp int64) (int64, error) {
	client, err := sarama.NewClient(p.brokers, config())
	if err != nil {
		return 0, err
	}
	defer client.Close()
	return client.GetOffset(topic, partition, timestamp)
}
