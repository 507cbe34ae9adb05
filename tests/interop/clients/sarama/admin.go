package main

import (
	"context"
	"errors"
	"strconv"

	"coreflume/interop/contract"

	"github.com/IBM/sarama"
)

// asking has what the calls of one admin run are about.
type asking struct {
	admin sarama.ClusterAdmin
	topic string
}

func (p program) admin(_ context.Context, topic string, timestamp int64) []contract.Call {
	admin, err := sarama.NewClusterAdmin(p.brokers, config())
	if err != nil {
		return []contract.Call{{Name: "connect", Ask: func() (any, error) { return nil, err }}}
	}
	a := asking{admin, topic}
	soon, long := "soon", "1234567890"
	return []contract.Call{
		{Name: "describe cluster", Ask: a.cluster},
		{Name: "list topics", Ask: func() (any, error) { return a.isListed(topic) }},
		{Name: "describe topic", Ask: a.partitions},
		{Name: "describe missing topic", Ask: a.missing},
		{Name: "check a creation", Ask: a.checkCreation},
		{Name: "describe topic config", Ask: a.retention},
		{Name: "alter topic config", Ask: func() (any, error) { return a.altered(sarama.IncrementalAlterConfigsOperationSet, &long) }},
		{Name: "reset topic config", Ask: func() (any, error) { return a.altered(sarama.IncrementalAlterConfigsOperationDelete, nil) }},
		{Name: "replace topic configs", Ask: a.replaced},
		{Name: "refused topic config", Ask: func() (any, error) {
			_, err := a.altered(sarama.IncrementalAlterConfigsOperationSet, &soon)
			return code(err)
		}},
		{Name: "describe broker config", Ask: func() (any, error) { return a.config(sarama.BrokerResource, "1", "message.max.bytes") }},
		{Name: "add partitions", Ask: a.addPartitions},
		{Name: "earliest offset", Ask: func() (any, error) { return a.offset(sarama.OffsetOldest) }},
		{Name: "latest offset", Ask: func() (any, error) { return a.offset(sarama.OffsetNewest) }},
		{Name: "offset for a time", Ask: func() (any, error) { return a.offset(timestamp) }},
		{Name: "delete records", Ask: a.deleteRecords},
		{Name: "elect leaders", Ask: a.elect},
		{Name: "log directories", Ask: a.logDirs},
		{Name: "produce by default", Ask: func() (any, error) { return p.produceByDefault(topic + "-default") }},
	}
}

// code is the broker's error where one is due.
func code(err error) (any, error) {
	var known sarama.KError
	if errors.As(err, &known) {
		return int16(known), nil
	}
	return nil, err
}

func (a asking) cluster() (any, error) {
	brokers, _, err := a.admin.DescribeCluster()
	ids := []int32{}
	for _, broker := range brokers {
		ids = append(ids, broker.ID())
	}
	return ids, err
}

func (a asking) isListed(topic string) (any, error) {
	topics, err := a.admin.ListTopics()
	_, found := topics[topic]
	return found, err
}

func (a asking) partitions() (any, error) {
	topics, err := a.admin.DescribeTopics([]string{a.topic})
	if err != nil {
		return nil, err
	}
	return len(topics[0].Partitions), nil
}

func (a asking) missing() (any, error) {
	topics, err := a.admin.DescribeTopics([]string{a.topic + "-no"})
	if err != nil {
		return nil, err
	}
	return code(topics[0].Err)
}

func (a asking) checkCreation() (any, error) {
	detail := &sarama.TopicDetail{NumPartitions: 1, ReplicationFactor: -1}
	if err := a.admin.CreateTopic(a.topic+"-no", detail, true); err != nil {
		return nil, err
	}
	return a.isListed(a.topic + "-no")
}

func (a asking) config(kind sarama.ConfigResourceType, name, entry string) (any, error) {
	answers, err := a.admin.DescribeConfigs([]*sarama.ConfigResource{{Type: kind, Name: name}},
		sarama.DescribeConfigsOptions{IncludeSynonyms: true, IncludeDocumentation: true})
	if err != nil {
		return nil, err
	}
	for _, config := range answers[0].Configs {
		if config.Name == entry {
			return config.Value, nil
		}
	}
	return nil, answers[0].ErrorCode
}

func (a asking) retention() (any, error) {
	return a.config(sarama.TopicResource, a.topic, "retention.ms")
}

func (a asking) altered(operation sarama.IncrementalAlterConfigsOperation, value *string) (any, error) {
	err := a.admin.IncrementalAlterConfig(sarama.TopicResource, a.topic,
		map[string]sarama.IncrementalAlterConfigsEntry{"retention.ms": {Operation: operation, Value: value}}, false)
	if err != nil {
		return nil, err
	}
	return a.retention()
}

func (a asking) replaced() (any, error) {
	longer := "7654321000"
	err := a.admin.AlterConfig(sarama.TopicResource, a.topic, map[string]*string{"retention.ms": &longer}, false)
	if err != nil {
		return nil, err
	}
	return a.retention()
}

func (a asking) addPartitions() (any, error) {
	if err := a.admin.CreatePartitions(a.topic, 3, nil, false); err != nil {
		return nil, err
	}
	return a.partitions()
}

func (a asking) offset(at int64) (any, error) {
	answers, err := a.admin.ListOffsets(map[string]map[int32]int64{a.topic: {1: at}}, nil)
	if err != nil {
		return nil, err
	}
	found := answers[a.topic][1]
	if found.Err != sarama.ErrNoError { // Not nil where all is well.
		return nil, found.Err
	}
	return found.Offset, nil
}

// deleteRecords asks for what is left, which sarama's call does not tell.
func (a asking) deleteRecords() (any, error) {
	if err := a.admin.DeleteRecords(a.topic, map[int32]int64{1: 4}); err != nil {
		return nil, err
	}
	return a.offset(sarama.OffsetOldest)
}

func (a asking) elect() (any, error) {
	answers, err := a.admin.ElectLeaders(sarama.PreferredElection, map[string][]int32{a.topic: {0}})
	if err != nil {
		return nil, err
	}
	return int16(answers[a.topic][0].ErrorCode), nil
}

func (a asking) logDirs() (any, error) {
	dirs, err := a.admin.DescribeLogDirs([]int32{1})
	for _, dir := range dirs[1] {
		for _, topic := range dir.Topics {
			if topic.Topic == a.topic {
				return true, err
			}
		}
	}
	return false, err
}

// produceByDefault leaves the version to sarama, too: NewConfig's is an old one.
func (p program) produceByDefault(topic string) (any, error) {
	c := sarama.NewConfig()
	c.Producer.Return.Successes = true // A SyncProducer needs it.
	producer, err := sarama.NewSyncProducer(p.brokers, c)
	if err != nil {
		return nil, err
	}
	defer producer.Close()
	for i := range contract.ByDefault {
		message := &sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder(strconv.Itoa(i))}
		if _, _, err := producer.SendMessage(message); err != nil {
			return i, err
		}
	}
	return contract.ByDefault, nil
}
