package main

import (
	"context"

	"github.com/twmb/franz-go/pkg/kadm"
)

func offsetOrNull(offset int64) any {
	if offset < 0 {
		return nil
	}
	return offset
}

func franzOffsetsForTimes(a Args) (Answer, error) {
	return franzAdmin(a, func(ctx context.Context, admin *kadm.Client) (Answer, error) {
		offsets := []any{}
		for _, timestamp := range a.Timestamps {
			listed, err := admin.ListOffsetsAfterMilli(ctx, timestamp, a.Topic)
			if err != nil {
				return nil, err
			}
			found, _ := listed.Lookup(a.Topic, a.Partition)
			// kadm answers the end of the partition where no record is that young; Kafka answers timestamp -1.
			if found.Timestamp < 0 {
				found.Offset = -1
			}
			offsets = append(offsets, offsetOrNull(found.Offset))
		}
		return Answer{"offsets": offsets}, nil
	})
}

func franzBounds(a Args) (Answer, error) {
	return franzAdmin(a, func(ctx context.Context, admin *kadm.Client) (Answer, error) {
		starts, err := admin.ListStartOffsets(ctx, a.Topic)
		if err != nil {
			return nil, err
		}
		ends, err := admin.ListEndOffsets(ctx, a.Topic)
		if err != nil {
			return nil, err
		}
		start, _ := starts.Lookup(a.Topic, a.Partition)
		end, _ := ends.Lookup(a.Topic, a.Partition)
		return Answer{"earliest": start.Offset, "latest": end.Offset}, nil
	})
}

func franzCreateTopic(a Args) (Answer, error) {
	return franzAdmin(a, func(ctx context.Context, admin *kadm.Client) (Answer, error) {
		configs := map[string]*string{}
		for name, value := range a.Configs {
			configs[name] = &value
		}
		done, err := admin.CreateTopic(ctx, a.partitionCount(), 1, configs, a.Topic)
		if err != nil {
			return nil, err
		}
		return nil, done.Err
	})
}

func franzDeleteTopic(a Args) (Answer, error) {
	return franzAdmin(a, func(ctx context.Context, admin *kadm.Client) (Answer, error) {
		done, err := admin.DeleteTopic(ctx, a.Topic)
		if err != nil {
			return nil, err
		}
		return nil, done.Err
	})
}

func franzCreatePartitions(a Args) (Answer, error) {
	return franzAdmin(a, func(ctx context.Context, admin *kadm.Client) (Answer, error) {
		done, err := admin.UpdatePartitions(ctx, a.Count, a.Topic)
		if err != nil {
			return nil, err
		}
		return nil, done.Error()
	})
}

func franzListTopics(a Args) (Answer, error) {
	return franzAdmin(a, func(ctx context.Context, admin *kadm.Client) (Answer, error) {
		topics := map[string]int{}
		listed, err := admin.ListTopics(ctx)
		for name, topic := range listed {
			topics[name] = len(topic.Partitions)
		}
		return Answer{"topics": topics}, err
	})
}

func franzTopicConfigs(a Args) (Answer, error) {
	return franzAdmin(a, func(ctx context.Context, admin *kadm.Client) (Answer, error) {
		described, err := admin.DescribeTopicConfigs(ctx, a.Topic)
		if err != nil {
			return nil, err
		}
		resource, err := described.On(a.Topic, nil)
		if err != nil {
			return nil, err
		}
		configs := map[string]any{}
		for _, config := range resource.Configs {
			configs[config.Key] = config.Value
		}
		return Answer{"configs": configs}, resource.Err
	})
}

func franzAlterTopicConfigs(a Args) (Answer, error) {
	return franzAdmin(a, func(ctx context.Context, admin *kadm.Client) (Answer, error) {
		changes := []kadm.AlterConfig{}
		for name, value := range a.Configs {
			changes = append(changes, kadm.AlterConfig{Op: kadm.SetConfig, Name: name, Value: &value})
		}
		done, err := admin.AlterTopicConfigs(ctx, changes, a.Topic)
		if err != nil {
			return nil, err
		}
		return nil, done[0].Err
	})
}

func franzDeleteRecords(a Args) (Answer, error) {
	return franzAdmin(a, func(ctx context.Context, admin *kadm.Client) (Answer, error) {
		offsets := kadm.Offsets{}
		offsets.AddOffset(a.Topic, a.Partition, a.Before, -1)
		done, err := admin.DeleteRecords(ctx, offsets)
		if err != nil {
			return nil, err
		}
		found, _ := done.Lookup(a.Topic, a.Partition)
		return Answer{"low_watermark": found.LowWatermark}, found.Err
	})
}

func franzListGroups(a Args) (Answer, error) {
	return franzAdmin(a, func(ctx context.Context, admin *kadm.Client) (Answer, error) {
		listed, err := admin.ListGroups(ctx)
		return Answer{"groups": listed.Groups()}, err
	})
}

func franzDescribeGroup(a Args) (Answer, error) {
	return franzAdmin(a, func(ctx context.Context, admin *kadm.Client) (Answer, error) {
		described, err := admin.DescribeGroups(ctx, a.Group)
		if err != nil {
			return nil, err
		}
		group := described[a.Group]
		return Answer{"state": group.State, "members": len(group.Members)}, group.Err
	})
}

func franzDeleteGroup(a Args) (Answer, error) {
	return franzAdmin(a, func(ctx context.Context, admin *kadm.Client) (Answer, error) {
		done, err := admin.DeleteGroup(ctx, a.Group)
		if err != nil {
			return nil, err
		}
		return nil, done.Err
	})
}

func franzCommitted(a Args) (Answer, error) {
	return franzAdmin(a, func(ctx context.Context, admin *kadm.Client) (Answer, error) {
		fetched, err := admin.FetchOffsets(ctx, a.Group)
		offsets := []any{}
		for _, partition := range a.partitionList() {
			found, ok := fetched.Lookup(a.Topic, partition)
			if !ok {
				found.At = -1
			}
			offsets = append(offsets, offsetOrNull(found.At))
		}
		return Answer{"offsets": offsets}, err
	})
}
