package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const timeout = 240 * time.Second // for hangs

var (
	franzProducers = map[string]*kgo.Client{}
	franzMembers   = map[string]*franzMember{}
	franzCodecs    = map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	franzBalancers = map[string]kgo.GroupBalancer{
		"range": kgo.RangeBalancer(), "roundrobin": kgo.RoundRobinBalancer(),
		"cooperative-sticky": kgo.CooperativeStickyBalancer(),
	}
)

func franz() {
	run(map[string]Operation{
		"secure": secure, "greet": franzGreet, "produce_open": franzProduceOpen, "produce": franzProduce, "flood": franzFlood,
		"produce_close": franzProduceClose, "transact": franzTransact, "consume": franzConsume, "swarm": franzSwarm,
		"offsets_for_times": franzOffsetsForTimes, "bounds": franzBounds,
		"join": franzJoin, "member": franzMemberState, "commit": franzCommit, "leave": franzLeave,
		"create_topic": franzCreateTopic, "delete_topic": franzDeleteTopic,
		"create_partitions": franzCreatePartitions, "list_topics": franzListTopics,
		"topic_configs": franzTopicConfigs, "alter_topic_configs": franzAlterTopicConfigs,
		"delete_records": franzDeleteRecords, "list_groups": franzListGroups,
		"describe_group": franzDescribeGroup, "delete_group": franzDeleteGroup, "committed": franzCommitted,
		"frame": franzFrame, "unframe": franzUnframe, "srclient": srclientTour,
	}, func(err error) any {
		var kafka *kerr.Error
		if errors.As(err, &kafka) {
			return kafka.Code
		}
		return nil
	})
}

func franzProduceOpen(a Args) (Answer, error) {
	options := []kgo.Opt{
		kgo.ProducerBatchCompression(franzCodecs[a.Compression]),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0),
		kgo.ProducerBatchMaxBytes(a.batchBytes()), kgo.RetryBackoffFn(func(int) time.Duration { return 50 * time.Millisecond }),
	}
	switch a.Acks {
	case "0":
		options = append(options, kgo.RequiredAcks(kgo.NoAck()))
	case "1":
		options = append(options, kgo.RequiredAcks(kgo.LeaderAck()))
	}
	if !a.Idempotent {
		options = append(options, kgo.DisableIdempotentWrite())
	}
	client, err := kgo.NewClient(franzOptions(a, options...)...)
	franzProducers[a.Handle] = client
	return nil, err
}

func franzProduce(a Args) (Answer, error) {
	records := make([]*kgo.Record, len(a.Records))
	for i, each := range a.Records {
		record := &kgo.Record{Topic: a.Topic, Key: each.Key, Value: each.Value}
		if each.Partition != nil {
			record.Partition = *each.Partition
		}
		if each.Timestamp != nil {
			record.Timestamp = time.UnixMilli(*each.Timestamp)
		}
		for _, header := range each.Headers {
			record.Headers = append(record.Headers, kgo.RecordHeader{Key: header.name, Value: header.value})
		}
		records[i] = record
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	if err := franzProducers[a.Handle].ProduceSync(ctx, records...).FirstErr(); err != nil {
		return nil, err
	}
	results := []Answer{}
	for _, record := range records {
		results = append(results, Answer{"partition": record.Partition, "offset": record.Offset})
	}
	return Answer{"results": results}, nil
}

func franzFlood(a Args) (Answer, error) {
	client, partitions, began := franzProducers[a.Handle], a.partitionCount(), time.Now()
	var first kgo.FirstErrPromise
	for i := range a.Count {
		record := &kgo.Record{
			Topic: a.Topic, Partition: int32(i) % partitions, Key: fmt.Append(nil, i), Value: floodValue(i, a.Size),
		}
		client.Produce(context.Background(), record, first.Promise())
		a.pace(began, i)
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	if err := client.Flush(ctx); err != nil {
		return nil, err
	}
	return Answer{"acked": a.Count}, first.Err()
}

func franzProduceClose(a Args) (Answer, error) {
	franzProducers[a.Handle].Close()
	delete(franzProducers, a.Handle)
	return nil, nil
}

func franzTransact(a Args) (Answer, error) {
	client, err := kgo.NewClient(franzOptions(a, kgo.TransactionalID(a.ID))...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(a.TimeoutMs)*time.Millisecond)
	defer cancel()
	if err := client.BeginTransaction(); err != nil {
		return nil, err
	}
	record := &kgo.Record{Topic: a.Topic, Value: []byte("in a transaction")}
	if err := client.ProduceSync(ctx, record).FirstErr(); err != nil {
		return nil, err
	}
	if a.ForMs > 0 {
		time.Sleep(time.Duration(a.ForMs) * time.Millisecond)
		again := &kgo.Record{Topic: a.Topic, Value: []byte("in a transaction")}
		if err := client.ProduceSync(ctx, again).FirstErr(); err != nil {
			return nil, err
		}
	}
	return nil, client.EndTransaction(ctx, kgo.TryCommit)
}

func franzRecord(record *kgo.Record) Record {
	timestamp, kind := record.Timestamp.UnixMilli(), record.Attrs.TimestampType()
	headers := []headerEntry{}
	for _, header := range record.Headers {
		headers = append(headers, headerEntry{header.Key, header.Value})
	}
	return Record{&record.Partition, record.Offset, &timestamp, &kind, record.Key, record.Value, headers}
}

func franzConsume(a Args) (Answer, error) {
	start := kgo.NewOffset().AtStart()
	if offset := a.startOffset(); offset >= 0 {
		start = kgo.NewOffset().At(offset)
	}
	assignment := map[string]map[int32]kgo.Offset{a.Topic: {}}
	for _, partition := range a.partitionList() {
		assignment[a.Topic][partition] = start
	}
	client, err := kgo.NewClient(franzOptions(a,
		kgo.ConsumePartitions(assignment), kgo.FetchMaxPartitionBytes(4<<20),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
	)...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	collector := newCollector(a)
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(a.TimeoutMs)*time.Millisecond)
	defer cancel()
	for collector.open() {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			break
		}
		if err := fetches.Err(); err != nil {
			return nil, err
		}
		fetches.EachRecord(func(record *kgo.Record) { collector.add(franzRecord(record)) })
	}
	return collector.answer(), nil
}

// franzSwarm opens many clients at once, each of which produces one record and waits for its offset.
func franzSwarm(a Args) (Answer, error) {
	var group sync.WaitGroup
	failures := make(chan error, a.Clients)
	clients := make([]*kgo.Client, a.Clients)
	for i := range clients {
		client, err := kgo.NewClient(franzOptions(a, kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
		if err != nil {
			return nil, err
		}
		defer client.Close()
		clients[i] = client
		group.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), timeout)
			defer cancel()
			record := &kgo.Record{Topic: a.Topic, Value: floodValue(i, 16)}
			if err := client.ProduceSync(ctx, record).FirstErr(); err != nil {
				failures <- fmt.Errorf("client %d: %w", i, err)
			}
		})
	}
	group.Wait()
	close(failures)
	return Answer{"acked": a.Clients - len(failures)}, <-failures
}

// franzMember is one group member, polled by a goroutine.
type franzMember struct {
	client *kgo.Client
	state  *MemberState
	cancel context.CancelFunc
	done   chan struct{}
}

func franzJoin(a Args) (Answer, error) {
	state := newMemberState()
	options := []kgo.Opt{
		kgo.ConsumerGroup(a.Group), kgo.ConsumeTopics(a.Topics...),
		kgo.Balancers(franzBalancers[a.Assignor]), kgo.DisableAutoCommit(),
		kgo.SessionTimeout(time.Duration(a.SessionTimeoutMs) * time.Millisecond),
		kgo.HeartbeatInterval(500 * time.Millisecond), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, got map[string][]int32) { state.assigned(got) }),
		kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, gone map[string][]int32) { state.revoked(gone) }),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, gone map[string][]int32) { state.revoked(gone) }),
	}
	if a.InstanceID != "" {
		options = append(options, kgo.InstanceID(a.InstanceID))
	}
	if a.Protocol == "consumer" {
		options = append(options, kgo.ServerSideBalancer())
	}
	client, err := kgo.NewClient(franzOptions(a, options...)...)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	member := &franzMember{client, state, cancel, make(chan struct{})}
	franzMembers[a.Handle] = member
	go func() {
		defer close(member.done)
		for ctx.Err() == nil {
			fetches := client.PollFetches(ctx)
			fetches.EachRecord(func(r *kgo.Record) { state.record(r.Topic, r.Partition, r.Offset, r.Value) })
		}
	}()
	return nil, nil
}

func franzMemberState(a Args) (Answer, error) { return franzMembers[a.Handle].state.answer() }

func franzCommit(a Args) (Answer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return nil, franzMembers[a.Handle].client.CommitUncommittedOffsets(ctx)
}

func franzLeave(a Args) (Answer, error) {
	member := franzMembers[a.Handle]
	delete(franzMembers, a.Handle)
	member.cancel()
	<-member.done
	member.client.Close()
	return nil, nil
}

// franzAdmin runs an operation with an admin client of its own.
func franzAdmin(a Args, operation func(context.Context, *kadm.Client) (Answer, error)) (Answer, error) {
	client, err := kgo.NewClient(franzOptions(a)...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return operation(ctx, kadm.NewClient(client))
}
