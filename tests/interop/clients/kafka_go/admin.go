package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"coreflume/interop/contract"

	"github.com/segmentio/kafka-go"
)

// asking has what the calls of one admin run are about.
type asking struct {
	program
	ctx   context.Context
	topic string
}

func (p program) admin(ctx context.Context, topic string, timestamp int64) []contract.Call {
	a := asking{p, ctx, topic}
	return []contract.Call{
		{Name: "describe cluster", Ask: a.cluster},
		{Name: "list topics", Ask: func() (any, error) { return a.isListed(topic) }},
		{Name: "describe topic", Ask: a.partitions},
		{Name: "describe missing topic", Ask: a.missing},
		{Name: "check a creation", Ask: a.checkCreation},
		{Name: "describe topic config", Ask: a.retention},
		{Name: "alter topic config", Ask: func() (any, error) { return a.altered(kafka.ConfigOperationSet, "1234567890") }},
		{Name: "reset topic config", Ask: func() (any, error) { return a.altered(kafka.ConfigOperationDelete, "") }},
		{Name: "replace topic configs", Ask: a.replaced},
		{Name: "refused topic config", Ask: func() (any, error) {
			_, err := a.altered(kafka.ConfigOperationSet, "soon")
			return code(err)
		}},
		{Name: "describe broker config", Ask: func() (any, error) {
			return a.config(kafka.ResourceTypeBroker, "1", "message.max.bytes")
		}},
		{Name: "add partitions", Ask: a.addPartitions},
		{Name: "earliest offset", Ask: func() (any, error) {
			found, err := a.offset(ctx, topic, kafka.FirstOffsetOf(1))
			return found.FirstOffset, err
		}},
		{Name: "latest offset", Ask: func() (any, error) {
			found, err := a.offset(ctx, topic, kafka.LastOffsetOf(1))
			return found.LastOffset, err
		}},
		{Name: "offset for a time", Ask: func() (any, error) { return a.lookup(ctx, topic, 1, timestamp) }},
		{Name: "elect leaders", Ask: a.elect},
		{Name: "produce by default", Ask: a.produceByDefault},
	}
}

// code is the broker's error where one is due.
func code(err error) (any, error) {
	var known kafka.Error
	if errors.As(err, &known) {
		return int(known), nil
	}
	return nil, err
}

func (a asking) cluster() (any, error) {
	answer, err := a.client.Metadata(a.ctx, &kafka.MetadataRequest{})
	if err != nil {
		return nil, err
	}
	ids := []int{}
	for _, broker := range answer.Brokers {
		ids = append(ids, broker.ID)
	}
	return ids, nil
}

func (a asking) isListed(topic string) (any, error) {
	answer, err := a.client.Metadata(a.ctx, &kafka.MetadataRequest{})
	if err != nil {
		return nil, err
	}
	for _, other := range answer.Topics {
		if other.Name == topic {
			return true, nil
		}
	}
	return false, nil
}

// described asks with a Transport of its own: one remembers metadata for seconds.
func (a asking) described(topic string) (kafka.Topic, error) {
	client := kafka.Client{Addr: a.client.Addr, Transport: &kafka.Transport{}}
	answer, err := client.Metadata(a.ctx, &kafka.MetadataRequest{Topics: []string{topic}})
	if err != nil {
		return kafka.Topic{}, err
	}
	return answer.Topics[0], answer.Topics[0].Error
}

func (a asking) partitions() (any, error) {
	topic, err := a.described(a.topic)
	return len(topic.Partitions), err
}

func (a asking) missing() (any, error) {
	_, err := a.described(a.topic + "-no")
	return code(err)
}

// checkCreation: v0.4.51 asks for metadata, without end, until a topic is there that was only checked.
func (a asking) checkCreation() (any, error) {
	return nil, contract.Unsupported("CreateTopics with ValidateOnly waits for the topic, without end")
}

func (a asking) config(kind kafka.ResourceType, name, entry string) (any, error) {
	answer, err := a.client.DescribeConfigs(a.ctx, &kafka.DescribeConfigsRequest{
		Resources:       []kafka.DescribeConfigRequestResource{{ResourceType: kind, ResourceName: name}},
		IncludeSynonyms: true, IncludeDocumentation: true})
	if err != nil {
		return nil, err
	}
	for _, config := range answer.Resources[0].ConfigEntries {
		if config.ConfigName == entry {
			return config.ConfigValue, nil
		}
	}
	return nil, answer.Resources[0].Error
}

func (a asking) retention() (any, error) {
	return a.config(kafka.ResourceTypeTopic, a.topic, "retention.ms")
}

func (a asking) altered(operation kafka.ConfigOperation, value string) (any, error) {
	answer, err := a.client.IncrementalAlterConfigs(a.ctx, &kafka.IncrementalAlterConfigsRequest{
		Resources: []kafka.IncrementalAlterConfigsRequestResource{{
			ResourceType: kafka.ResourceTypeTopic, ResourceName: a.topic,
			Configs: []kafka.IncrementalAlterConfigsRequestConfig{
				{Name: "retention.ms", Value: value, ConfigOperation: operation}}}}})
	if err == nil {
		err = answer.Resources[0].Error
	}
	if err != nil {
		return nil, err
	}
	return a.retention()
}

func (a asking) replaced() (any, error) {
	answer, err := a.client.AlterConfigs(a.ctx, &kafka.AlterConfigsRequest{
		Resources: []kafka.AlterConfigRequestResource{{ResourceType: kafka.ResourceTypeTopic, ResourceName: a.topic,
			Configs: []kafka.AlterConfigRequestConfig{{Name: "retention.ms", Value: "7654321000"}}}}})
	if err == nil {
		err = answer.Errors[kafka.AlterConfigsResponseResource{Type: int8(kafka.ResourceTypeTopic), Name: a.topic}]
	}
	if err != nil {
		return nil, err
	}
	return a.retention()
}

func (a asking) addPartitions() (any, error) {
	answer, err := a.client.CreatePartitions(a.ctx, &kafka.CreatePartitionsRequest{
		Topics: []kafka.TopicPartitionsConfig{{Name: a.topic, Count: 3}}})
	if err == nil {
		err = answer.Errors[a.topic]
	}
	if err != nil {
		return nil, err
	}
	return a.partitions()
}

func (a asking) elect() (any, error) {
	answer, err := a.client.ElectLeaders(a.ctx, &kafka.ElectLeadersRequest{Topic: a.topic, Partitions: []int{0},
		Timeout: time.Second})
	if err == nil {
		err = answer.Error
	}
	if err == nil && len(answer.PartitionResults) != 1 {
		err = fmt.Errorf("%d answers for one partition", len(answer.PartitionResults))
	}
	if err != nil {
		return nil, err
	}
	return code(answer.PartitionResults[0].Error)
}

func (a asking) produceByDefault() (any, error) {
	topic := a.topic + "-default"
	if err := a.create(a.ctx, topic, 1); err != nil {
		return nil, err
	}
	writer := &kafka.Writer{Addr: a.client.Addr, Topic: topic}
	messages := make([]kafka.Message, contract.ByDefault)
	for i := range messages {
		messages[i].Value = []byte(strconv.Itoa(i))
	}
	if err := writer.WriteMessages(a.ctx, messages...); err != nil {
		return nil, err
	}
	return len(messages), writer.Close()
}
