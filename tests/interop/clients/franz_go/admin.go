package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"coreflume/interop/contract"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// asking has what the calls of one admin run are about.
type asking struct {
	ctx   context.Context
	admin *kadm.Client
	topic string
}

func (p program) admin(ctx context.Context, topic string, timestamp int64) []contract.Call {
	client, err := p.client()
	if err != nil {
		return []contract.Call{{Name: "connect", Ask: func() (any, error) { return nil, err }}}
	}
	a := asking{ctx, kadm.NewClient(client), topic}
	return []contract.Call{
		{Name: "describe cluster", Ask: a.cluster},
		{Name: "list topics", Ask: func() (any, error) { return a.isListed(topic) }},
		{Name: "describe topic", Ask: a.partitions},
		{Name: "describe missing topic", Ask: a.missing},
		{Name: "check a creation", Ask: a.checkCreation},
		{Name: "describe topic config", Ask: a.retention},
		{Name: "alter topic config", Ask: func() (any, error) { return a.altered(kadm.SetConfig, kadm.StringPtr("1234567890")) }},
		{Name: "reset topic config", Ask: func() (any, error) { return a.altered(kadm.DeleteConfig, nil) }},
		{Name: "replace topic configs", Ask: a.replaced},
		{Name: "refused topic config", Ask: func() (any, error) {
			_, err := a.altered(kadm.SetConfig, kadm.StringPtr("soon"))
			return code(err)
		}},
		{Name: "describe broker config", Ask: a.brokerConfig},
		{Name: "add partitions", Ask: a.addPartitions},
		{Name: "earliest offset", Ask: func() (any, error) { return a.offset(a.admin.ListStartOffsets(ctx, topic)) }},
		{Name: "latest offset", Ask: func() (any, error) { return a.offset(a.admin.ListEndOffsets(ctx, topic)) }},
		{Name: "offset of latest time", Ask: func() (any, error) { return a.offset(a.admin.ListMaxTimestampOffsets(ctx, topic)) }},
		{Name: "offset for a time", Ask: func() (any, error) { return a.offset(a.admin.ListOffsetsAfterMilli(ctx, timestamp, topic)) }},
		{Name: "delete records", Ask: a.deleteRecords},
		{Name: "elect leaders", Ask: a.elect},
		{Name: "log directories", Ask: a.logDirs},
		{Name: "produce by default", Ask: func() (any, error) { return p.produceByDefault(ctx, a, topic+"-default") }},
	}
}

// code is the broker's error where one is due.
func code(err error) (any, error) {
	var known *kerr.Error
	if errors.As(err, &known) {
		return known.Code, nil
	}
	return nil, err
}

func (a asking) cluster() (any, error) {
	brokers, err := a.admin.ListBrokers(a.ctx)
	return brokers.NodeIDs(), err
}

func (a asking) isListed(topic string) (any, error) {
	topics, err := a.admin.ListTopics(a.ctx)
	return topics.Has(topic), err
}

func (a asking) partitions() (any, error) {
	topics, err := a.admin.ListTopics(a.ctx, a.topic)
	return len(topics[a.topic].Partitions), errors.Join(err, topics.Error())
}

func (a asking) missing() (any, error) {
	topics, err := a.admin.ListTopics(a.ctx, a.topic+"-no")
	if err != nil {
		return nil, err
	}
	return code(topics[a.topic+"-no"].Err)
}

func (a asking) checkCreation() (any, error) {
	checked, err := a.admin.ValidateCreateTopics(a.ctx, 1, -1, nil, a.topic+"-no")
	if err := errors.Join(err, checked.Error()); err != nil {
		return nil, err
	}
	return a.isListed(a.topic + "-no")
}

func value(configs kadm.ResourceConfigs, err error, resource, entry string) (any, error) {
	if err != nil {
		return nil, err
	}
	of, err := configs.On(resource, nil)
	for _, config := range of.Configs {
		if config.Key == entry {
			return config.MaybeValue(), err
		}
	}
	return nil, errors.Join(err, of.Err)
}

func (a asking) retention() (any, error) {
	configs, err := a.admin.DescribeTopicConfigs(a.ctx, a.topic)
	return value(configs, err, a.topic, "retention.ms")
}

func (a asking) brokerConfig() (any, error) {
	configs, err := a.admin.DescribeBrokerConfigs(a.ctx, 1)
	return value(configs, err, strconv.Itoa(1), "message.max.bytes")
}

func (a asking) altered(op kadm.IncrementalOp, value *string) (any, error) {
	answers, err := a.admin.AlterTopicConfigs(a.ctx, []kadm.AlterConfig{{Op: op, Name: "retention.ms", Value: value}}, a.topic)
	if err == nil {
		err = answers[0].Err
	}
	if err != nil {
		return nil, err
	}
	return a.retention()
}

func (a asking) replaced() (any, error) {
	answers, err := a.admin.AlterTopicConfigsState(a.ctx,
		[]kadm.AlterConfig{{Name: "retention.ms", Value: kadm.StringPtr("7654321000")}}, a.topic)
	if err == nil {
		err = answers[0].Err
	}
	if err != nil {
		return nil, err
	}
	return a.retention()
}

func (a asking) addPartitions() (any, error) {
	answers, err := a.admin.CreatePartitions(a.ctx, 1, a.topic)
	if err := errors.Join(err, answers.Error()); err != nil {
		return nil, err
	}
	return a.partitions()
}

func (a asking) offset(listed kadm.ListedOffsets, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	at, ok := listed.Lookup(a.topic, 1)
	if !ok {
		return nil, fmt.Errorf("no answer for partition 1")
	}
	return at.Offset, at.Err
}

func (a asking) deleteRecords() (any, error) {
	var before kadm.Offsets
	before.AddOffset(a.topic, 1, 4, -1)
	answers, err := a.admin.DeleteRecords(a.ctx, before)
	if err != nil {
		return nil, err
	}
	return answers[a.topic][1].LowWatermark, answers[a.topic][1].Err
}

func (a asking) elect() (any, error) {
	var which kadm.TopicsSet
	which.Add(a.topic, 0)
	answers, err := a.admin.ElectLeaders(a.ctx, kadm.ElectPreferredReplica, which)
	if err != nil {
		return nil, err
	}
	return code(answers[a.topic][0].Err)
}

func (a asking) logDirs() (any, error) {
	dirs, err := a.admin.DescribeAllLogDirs(a.ctx, nil)
	if err != nil {
		return nil, err
	}
	_, found := dirs[1].LookupPartition(a.topic, 1)
	return found, dirs[1].Error()
}

func (p program) produceByDefault(ctx context.Context, a asking, topic string) (any, error) {
	if _, err := a.admin.CreateTopic(ctx, 1, -1, nil, topic); err != nil {
		return nil, err
	}
	client, err := p.client()
	if err != nil {
		return nil, err
	}
	defer client.Close()
	records := make([]*kgo.Record, contract.ByDefault)
	for i := range records {
		records[i] = &kgo.Record{Topic: topic, Value: []byte(strconv.Itoa(i))}
	}
	return len(records), client.ProduceSync(ctx, records...).FirstErr()
}
