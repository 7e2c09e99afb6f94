package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

var (
	saramaProducers = map[string]*saramaProducer{}
	saramaMembers   = map[string]*saramaMember{}
	saramaCodecs    = map[string]sarama.CompressionCodec{
		"none": sarama.CompressionNone, "gzip": sarama.CompressionGZIP, "snappy": sarama.CompressionSnappy,
		"lz4": sarama.CompressionLZ4, "zstd": sarama.CompressionZSTD,
	}
	saramaBalancers = map[string]sarama.BalanceStrategy{
		"range": sarama.NewBalanceStrategyRange(), "roundrobin": sarama.NewBalanceStrategyRoundRobin(),
		"cooperative-sticky": sarama.NewBalanceStrategyCooperativeSticky(),
	}
)

func runSarama() {
	run(map[string]Operation{
		"secure": secure, "greet": saramaGreet, "produce_open": saramaProduceOpen, "produce": saramaProduce, "flood": saramaFlood,
		"produce_close": saramaProduceClose, "transact": saramaTransact, "consume": saramaConsume,
		"offsets_for_times": saramaOffsetsForTimes, "bounds": saramaBounds,
		"join": saramaJoin, "member": saramaMemberState, "commit": saramaCommit, "leave": saramaLeave,
		"create_topic": saramaCreateTopic, "delete_topic": saramaDeleteTopic,
		"create_partitions": saramaCreatePartitions, "list_topics": saramaListTopics,
		"topic_configs": saramaTopicConfigs, "alter_topic_configs": saramaAlterTopicConfigs,
		"delete_records": saramaDeleteRecords, "list_groups": saramaListGroups,
		"describe_group": saramaDescribeGroup, "delete_group": saramaDeleteGroup, "committed": saramaCommitted,
	}, func(err error) any {
		var kafka sarama.KError
		if errors.As(err, &kafka) {
			return int16(kafka)
		}
		return nil
	})
}

func saramaConfig() *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.ClientID = "sarama-driver"
	config.Metadata.Retry.Backoff = 100 * time.Millisecond
	config.Metadata.Retry.Max = 60
	config.Consumer.Fetch.Default = 4 << 20
	config.Consumer.MaxWaitTime = 100 * time.Millisecond
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Group.Heartbeat.Interval = 500 * time.Millisecond
	secureSarama(config)
	return config
}

// saramaProducer is an async producer; results come back through each message's metadata.
type saramaProducer struct {
	producer sarama.AsyncProducer
	pending  sync.WaitGroup
	mu       sync.Mutex
	err      error
}

func saramaProduceOpen(a Args) (Answer, error) {
	config := saramaConfig()
	config.Producer.RequiredAcks = map[string]sarama.RequiredAcks{
		"0": sarama.NoResponse, "1": sarama.WaitForLocal, "all": sarama.WaitForAll,
	}[a.Acks]
	config.Producer.Compression = saramaCodecs[a.Compression]
	config.Producer.Idempotent = a.Idempotent
	config.Producer.Return.Successes = true
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.MaxMessageBytes = int(a.batchBytes())
	config.Producer.Retry.Max = 200
	config.Producer.Retry.Backoff = 50 * time.Millisecond
	if a.Idempotent {
		config.Net.MaxOpenRequests = 1
	}
	producer, err := sarama.NewAsyncProducer([]string{a.Bootstrap}, config)
	if err != nil {
		return nil, err
	}
	p := &saramaProducer{producer: producer}
	saramaProducers[a.Handle] = p
	go func() {
		for range producer.Successes() {
			p.pending.Done()
		}
	}()
	go func() {
		for failure := range producer.Errors() {
			p.mu.Lock()
			p.err = failure.Err
			p.mu.Unlock()
			p.pending.Done()
		}
	}()
	return nil, nil
}

func saramaTransact(a Args) (Answer, error) {
	config := saramaConfig()
	config.Net.MaxOpenRequests = 1
	config.Producer.Idempotent = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Return.Successes = true
	config.Producer.Transaction.ID = a.ID
	producer, err := sarama.NewSyncProducer([]string{a.Bootstrap}, config)
	if err != nil {
		return nil, err
	}
	defer producer.Close()
	if err := producer.BeginTxn(); err != nil {
		return nil, err
	}
	message := &sarama.ProducerMessage{Topic: a.Topic, Value: sarama.StringEncoder("in a transaction")}
	if _, _, err := producer.SendMessage(message); err != nil {
		return nil, err
	}
	if a.ForMs > 0 {
		time.Sleep(time.Duration(a.ForMs) * time.Millisecond)
		if _, _, err := producer.SendMessage(message); err != nil {
			return nil, err
		}
	}
	return nil, producer.CommitTxn()
}

func (p *saramaProducer) send(message *sarama.ProducerMessage) {
	p.pending.Add(1)
	p.producer.Input() <- message
}

// wait returns when everything sent was answered, with the last error.
func (p *saramaProducer) wait() error {
	p.pending.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	err := p.err
	p.err = nil
	return err
}

func saramaProduce(a Args) (Answer, error) {
	producer := saramaProducers[a.Handle]
	messages := make([]*sarama.ProducerMessage, len(a.Records))
	for i, each := range a.Records {
		message := &sarama.ProducerMessage{Topic: a.Topic}
		// A nil interface is a null; an Encoder over nil bytes would be an empty value.
		if each.Key != nil {
			message.Key = sarama.ByteEncoder(each.Key)
		}
		if each.Value != nil {
			message.Value = sarama.ByteEncoder(each.Value)
		}
		if each.Partition != nil {
			message.Partition = *each.Partition
		}
		if each.Timestamp != nil {
			message.Timestamp = time.UnixMilli(*each.Timestamp)
		}
		for _, header := range each.Headers {
			message.Headers = append(message.Headers, sarama.RecordHeader{Key: []byte(header.name), Value: header.value})
		}
		messages[i] = message
		producer.send(message)
	}
	if err := producer.wait(); err != nil {
		return nil, err
	}
	results := []Answer{}
	for _, message := range messages {
		results = append(results, Answer{"partition": message.Partition, "offset": message.Offset})
	}
	return Answer{"results": results}, nil
}

func saramaFlood(a Args) (Answer, error) {
	producer, partitions, began := saramaProducers[a.Handle], a.partitionCount(), time.Now()
	for i := range a.Count {
		producer.send(&sarama.ProducerMessage{
			Topic: a.Topic, Partition: int32(i) % partitions,
			Key: sarama.StringEncoder(fmt.Sprint(i)), Value: sarama.ByteEncoder(floodValue(i, a.Size)),
		})
		a.pace(began, i)
	}
	return Answer{"acked": a.Count}, producer.wait()
}

func saramaProduceClose(a Args) (Answer, error) {
	producer := saramaProducers[a.Handle]
	delete(saramaProducers, a.Handle)
	return nil, producer.producer.Close()
}

func saramaRecord(message *sarama.ConsumerMessage) Record {
	timestamp := message.Timestamp.UnixMilli()
	headers := []headerEntry{}
	for _, header := range message.Headers {
		headers = append(headers, headerEntry{string(header.Key), header.Value})
	}
	return Record{&message.Partition, message.Offset, &timestamp, nil, message.Key, message.Value, headers}
}

func saramaConsume(a Args) (Answer, error) {
	consumer, err := sarama.NewConsumer([]string{a.Bootstrap}, saramaConfig())
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	collector := newCollector(a)
	messages := make(chan *sarama.ConsumerMessage, 1000)
	for _, partition := range a.partitionList() {
		reader, err := consumer.ConsumePartition(a.Topic, partition, a.startOffset())
		if err != nil {
			return nil, err
		}
		defer reader.AsyncClose()
		go func() {
			for message := range reader.Messages() {
				messages <- message
			}
		}()
	}
	deadline := time.After(time.Duration(a.TimeoutMs) * time.Millisecond)
	for collector.open() {
		select {
		case message := <-messages:
			collector.add(saramaRecord(message))
		case <-deadline:
			return collector.answer(), nil
		}
	}
	return collector.answer(), nil
}

// saramaMember is one group member; Consume is called again after every rebalance, as sarama asks.
type saramaMember struct {
	group  sarama.ConsumerGroup
	state  *MemberState
	cancel context.CancelFunc
	done   chan struct{}
	name   string

	mu        sync.Mutex
	session   sarama.ConsumerGroupSession
	positions map[owned]int64
	refused   error
}

// watch keeps what the broker refused last; errors of connections are sarama's to mend.
func (m *saramaMember) watch() {
	for err := range m.group.Errors() {
		var refused sarama.KError
		if errors.As(err, &refused) && refused != sarama.ErrRebalanceInProgress {
			m.mu.Lock()
			m.refused = refused
			m.mu.Unlock()
		}
	}
}

func (m *saramaMember) Setup(session sarama.ConsumerGroupSession) error {
	m.mu.Lock()
	m.session = session
	m.mu.Unlock()
	return nil
}

func (m *saramaMember) Cleanup(sarama.ConsumerGroupSession) error { return nil }

// ConsumeClaim runs as long as the partition is owned: a cooperative rebalance ends the revoked claims alone.
func (m *saramaMember) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	partition := map[string][]int32{claim.Topic(): {claim.Partition()}}
	m.state.assigned(partition)
	defer func() {
		m.state.revoked(partition)
		m.mu.Lock()
		delete(m.positions, owned{claim.Topic(), claim.Partition()})
		m.mu.Unlock()
	}()
	for message := range claim.Messages() {
		session.MarkMessage(message, "")
		m.mu.Lock()
		m.positions[owned{message.Topic, message.Partition}] = message.Offset + 1
		m.mu.Unlock()
		// Shown last: a test that has seen the record may commit at once.
		m.state.record(message.Topic, message.Partition, message.Offset, message.Value)
	}
	return nil
}

func saramaJoin(a Args) (Answer, error) {
	config := saramaConfig()
	config.Consumer.Group.Session.Timeout = time.Duration(a.SessionTimeoutMs) * time.Millisecond
	config.Consumer.Group.InstanceId = a.InstanceID
	config.Consumer.Return.Errors = true
	config.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{saramaBalancers[a.Assignor]}
	group, err := sarama.NewConsumerGroup([]string{a.Bootstrap}, a.Group, config)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	member := &saramaMember{
		group: group, state: newMemberState(), cancel: cancel, done: make(chan struct{}),
		name: a.Group, positions: map[owned]int64{},
	}
	saramaMembers[a.Handle] = member
	go member.watch()
	go func() {
		defer close(member.done)
		for ctx.Err() == nil {
			if err := group.Consume(ctx, a.Topics, member); err != nil {
				// The broker may be restarting; the tests see a lasting failure as a missing assignment.
				time.Sleep(100 * time.Millisecond)
			}
		}
	}()
	return nil, nil
}

func saramaMemberState(a Args) (Answer, error) { return saramaMembers[a.Handle].state.answer() }

// saramaCommit commits until the broker has it, because sarama (1.61.1) may not even send its OffsetCommit: a session
// keeps the coordinator's Broker that it first looked up (offset_manager.go, coordinator), while the client, when it
// asks for metadata on a connection that a restart has left dead, deregisters that Broker and registers another
// (client.go, deregisterBroker). Heartbeats take the new one, so the session lives on, and the next Commit finds its
// own "not connected", gives it back and reports no more than an error of the partition (flushToBrokerFor); the Commit
// after that succeeds. Against Apache Kafka it is the same, whenever connections break twice in two seconds.
// What the broker refuses is not repeated: the test is to see it. What it took and lost is not either, since offsets
// that were answered without an error are not sent again.
func saramaCommit(a Args) (Answer, error) {
	member := saramaMembers[a.Handle]
	member.mu.Lock()
	member.refused = nil
	member.mu.Unlock()
	for deadline := time.Now().Add(timeout); ; time.Sleep(50 * time.Millisecond) {
		member.mu.Lock()
		session, positions := member.session, maps.Clone(member.positions)
		member.mu.Unlock()
		session.Commit()
		missing, err := uncommitted(a, member.name, positions)
		if err != nil || missing == 0 {
			return nil, err
		}
		member.mu.Lock()
		refused := member.refused
		member.mu.Unlock()
		if refused != nil {
			return nil, refused
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("%d partitions are not committed after %s", missing, timeout)
		}
	}
}

// uncommitted counts the partitions whose committed offset is not the position.
func uncommitted(a Args, group string, positions map[owned]int64) (missing int, err error) {
	_, err = saramaAdmin(a, func(admin sarama.ClusterAdmin) (Answer, error) {
		for where, offset := range positions {
			fetched, err := admin.ListConsumerGroupOffsets(group, map[string][]int32{where.topic: {where.partition}})
			if err != nil {
				return nil, err
			}
			if fetched.GetBlock(where.topic, where.partition).Offset != offset {
				missing++
			}
		}
		return nil, nil
	})
	return missing, err
}

func saramaLeave(a Args) (Answer, error) {
	member := saramaMembers[a.Handle]
	delete(saramaMembers, a.Handle)
	member.cancel()
	<-member.done
	return nil, member.group.Close()
}
