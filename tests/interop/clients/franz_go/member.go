package main

import (
	"context"
	"errors"
	"time"

	"coreflume/interop/contract"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const poll = 50 * time.Millisecond

type member struct {
	client *kgo.Client
	topic  string
	events *contract.Events
}

func protocol(name string) []kgo.Opt {
	switch name {
	case "consumer":
		return []kgo.Opt{kgo.Balancers(kgo.StickyBalancer()), kgo.ServerSideBalancer()}
	case "range":
		return []kgo.Opt{kgo.Balancers(kgo.RangeBalancer())}
	}
	return []kgo.Opt{kgo.Balancers(kgo.CooperativeStickyBalancer())}
}

func (p program) member(ctx context.Context, joining contract.Joining, events *contract.Events) error {
	m := &member{topic: joining.Topic, events: events}
	options := append(protocol(joining.Protocol), kgo.ConsumerGroup(joining.Group), kgo.ConsumeTopics(joining.Topic),
		kgo.SessionTimeout(joining.Session), kgo.HeartbeatInterval(joining.Heartbeat), kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(), kgo.FetchMaxWait(100*time.Millisecond), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
			events.Assigned(partitions[m.topic])
		}),
		kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
			m.commit(partitions[m.topic])
			events.Revoked(partitions[m.topic])
		}),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
			events.Lost(partitions[m.topic])
		}))
	if joining.Instance != "" {
		options = append(options, kgo.InstanceID(joining.Instance))
	}
	client, err := p.client(options...)
	if err != nil {
		return err
	}
	m.client = client
	m.consume(ctx)
	client.CloseAllowingRebalance()
	return nil
}

func (m *member) consume(ctx context.Context) {
	due := time.Now()
	for ctx.Err() == nil {
		waiting, cancel := context.WithTimeout(ctx, poll)
		fetches := m.client.PollFetches(waiting)
		cancel()
		fetches.EachError(func(_ string, _ int32, err error) {
			if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
				m.events.Error(name(err))
			}
		})
		fetches.EachRecord(func(record *kgo.Record) { m.events.Record(record.Partition, record.Offset) })
		if time.Now().After(due) {
			m.commit(nil)
			due = time.Now().Add(contract.CommitEvery)
		}
		m.client.AllowRebalance()
	}
	m.commit(nil)
}

// commit takes what was received of these partitions or of all (nil).
func (m *member) commit(of []int32) {
	offsets := m.events.Due(of)
	if len(offsets) == 0 {
		return
	}
	wanted := map[int32]kgo.EpochOffset{}
	for partition, position := range offsets {
		wanted[partition] = kgo.EpochOffset{Epoch: -1, Offset: position}
	}
	m.client.CommitOffsetsSync(context.Background(), map[string]map[int32]kgo.EpochOffset{m.topic: wanted},
		func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, answer *kmsg.OffsetCommitResponse, err error) {
			if err != nil {
				m.events.Refused(name(err))
				return
			}
			m.judge(offsets, answer)
		})
}

func (m *member) judge(offsets map[int32]int64, answer *kmsg.OffsetCommitResponse) {
	taken := map[int32]int64{}
	for _, topic := range answer.Topics {
		for _, partition := range topic.Partitions {
			if err := kerr.ErrorForCode(partition.ErrorCode); err != nil {
				m.events.Refused(name(err))
				continue
			}
			taken[partition.Partition] = offsets[partition.Partition]
		}
	}
	m.events.Committed(taken)
}

func name(err error) string {
	var known *kerr.Error
	if errors.As(err, &known) {
		return known.Message
	}
	return err.Error()
}
