package main

import (
	"context"
	"errors"
	"time"

	"coreflume/interop/contract"

	"github.com/IBM/sarama"
)

// member is the handler of its own group. The client does not tell which commits were acknowledged: none is said here.
type member struct {
	topic  string
	events *contract.Events
	owned  []int32
}

func (p program) member(ctx context.Context, joining contract.Joining, events *contract.Events) error {
	c := config()
	c.Consumer.Group.Session.Timeout = joining.Session
	c.Consumer.Group.Heartbeat.Interval = joining.Heartbeat
	c.Consumer.Group.InstanceId = joining.Instance
	c.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{sarama.NewBalanceStrategyRange()}
	if joining.Protocol == "sticky" {
		c.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{sarama.NewBalanceStrategySticky()}
	}
	c.Consumer.Offsets.Initial = sarama.OffsetOldest
	c.Consumer.Offsets.AutoCommit.Enable = false
	c.Consumer.MaxWaitTime = 100 * time.Millisecond
	c.Consumer.Return.Errors = true
	group, err := sarama.NewConsumerGroup(p.brokers, joining.Group, c)
	if err != nil {
		return err
	}
	go func() {
		for err := range group.Errors() {
			events.Error(name(err))
		}
	}()
	m := &member{topic: joining.Topic, events: events}
	for ctx.Err() == nil {
		if err := group.Consume(ctx, []string{m.topic}, m); err != nil && ctx.Err() == nil {
			events.Error(name(err))
			time.Sleep(contract.CommitEvery)
		}
	}
	return group.Close()
}

// Setup comes before the claims.
func (m *member) Setup(session sarama.ConsumerGroupSession) error {
	m.owned = session.Claims()[m.topic]
	m.events.Assigned(m.owned)
	go func() {
		ticks := time.NewTicker(contract.CommitEvery)
		defer ticks.Stop()
		for {
			select {
			case <-ticks.C:
				session.Commit()
			case <-session.Context().Done():
				return
			}
		}
	}()
	return nil
}

// Cleanup comes after all claims have ended.
func (m *member) Cleanup(session sarama.ConsumerGroupSession) error {
	session.Commit()
	m.events.Revoked(m.owned)
	return nil
}

// ConsumeClaim is one partition.
func (m *member) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message, ok := <-claim.Messages():
			if !ok {
				return nil
			}
			m.events.Record(message.Partition, message.Offset)
			session.MarkMessage(message, "")
		case <-session.Context().Done():
			return nil
		}
	}
}

func name(err error) string {
	var code sarama.KError
	if errors.As(err, &code) {
		return contract.ErrorName(int(code))
	}
	return err.Error()
}
