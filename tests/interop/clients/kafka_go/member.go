package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"coreflume/interop/contract"

	"github.com/segmentio/kafka-go"
)

type member struct {
	brokers []string
	topic   string
	events  *contract.Events
}

func (p program) member(ctx context.Context, joining contract.Joining, events *contract.Events) error {
	m := &member{brokers: []string{p.client.Addr.String()}, topic: joining.Topic, events: events}
	balancer := kafka.GroupBalancer(kafka.RangeGroupBalancer{})
	if joining.Protocol == "roundrobin" {
		balancer = kafka.RoundRobinGroupBalancer{}
	}
	group, err := kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{ID: joining.Group, Brokers: m.brokers,
		Topics: []string{m.topic}, GroupBalancers: []kafka.GroupBalancer{balancer}, HeartbeatInterval: joining.Heartbeat,
		SessionTimeout: joining.Session, RebalanceTimeout: 30 * time.Second, JoinGroupBackoff: 200 * time.Millisecond,
		StartOffset: kafka.FirstOffset})
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		generation, err := group.Next(ctx)
		if err == nil {
			generation.Start(func(ending context.Context) { m.consume(ending, generation) })
		} else if ctx.Err() == nil {
			events.Error(name(err))
		}
	}
	return group.Close()
}

// consume is one generation: the group joins again when it has returned.
func (m *member) consume(ctx context.Context, generation *kafka.Generation) {
	var owned []int32
	for _, assigned := range generation.Assignments[m.topic] {
		owned = append(owned, int32(assigned.ID))
	}
	m.events.Assigned(owned)
	var readers sync.WaitGroup
	for _, assigned := range generation.Assignments[m.topic] {
		readers.Add(1)
		go func() {
			defer readers.Done()
			m.read(ctx, assigned)
		}()
	}
	ticks := time.NewTicker(contract.CommitEvery)
	defer ticks.Stop()
	for ctx.Err() == nil {
		select {
		case <-ticks.C:
			m.commit(generation)
		case <-ctx.Done():
		}
	}
	readers.Wait()
	m.commit(generation)
	m.events.Revoked(owned)
}

func (m *member) read(ctx context.Context, from kafka.PartitionAssignment) {
	reader := kafka.NewReader(kafka.ReaderConfig{Brokers: m.brokers, Topic: m.topic, Partition: from.ID,
		MinBytes: 1, MaxBytes: contract.Largest, MaxWait: 100 * time.Millisecond})
	defer reader.Close()
	reader.SetOffset(from.Offset)
	for {
		message, err := reader.ReadMessage(ctx)
		if err != nil {
			if ctx.Err() == nil {
				m.events.Error(name(err))
			}
			return
		}
		m.events.Record(int32(message.Partition), message.Offset)
	}
}

func (m *member) commit(generation *kafka.Generation) {
	offsets := m.events.Due(nil)
	if len(offsets) == 0 {
		return
	}
	wanted := map[int]int64{}
	for partition, position := range offsets {
		wanted[int(partition)] = position
	}
	if err := generation.CommitOffsets(map[string]map[int]int64{m.topic: wanted}); err != nil {
		m.events.Refused(name(err))
		return
	}
	m.events.Committed(offsets)
}

func name(err error) string {
	var code kafka.Error
	if errors.As(err, &code) {
		return contract.ErrorName(int(code))
	}
	return err.Error()
}
