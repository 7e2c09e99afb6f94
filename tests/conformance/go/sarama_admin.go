package main

import "github.com/IBM/sarama"

// saramaAdmin runs an operation with an admin client of its own.
func saramaAdmin(a Args, operation func(sarama.ClusterAdmin) (Answer, error)) (Answer, error) {
	admin, err := sarama.NewClusterAdmin([]string{a.Bootstrap}, saramaConfig())
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	return operation(admin)
}

func saramaOffsetsForTimes(a Args) (Answer, error) {
	client, err := sarama.NewClient([]string{a.Bootstrap}, saramaConfig())
	if err != nil {
		return nil, err
	}
	defer client.Close()
	offsets := []any{}
	for _, timestamp := range a.Timestamps {
		offset, err := client.GetOffset(a.Topic, a.Partition, timestamp)
		if err != nil {
			return nil, err
		}
		offsets = append(offsets, offsetOrNull(offset))
	}
	return Answer{"offsets": offsets}, nil
}

func saramaBounds(a Args) (Answer, error) {
	client, err := sarama.NewClient([]string{a.Bootstrap}, saramaConfig())
	if err != nil {
		return nil, err
	}
	defer client.Close()
	earliest, err := client.GetOffset(a.Topic, a.Partition, sarama.OffsetOldest)
	if err != nil {
		return nil, err
	}
	latest, err := client.GetOffset(a.Topic, a.Partition, sarama.OffsetNewest)
	return Answer{"earliest": earliest, "latest": latest}, err
}

func saramaCreateTopic(a Args) (Answer, error) {
	return saramaAdmin(a, func(admin sarama.ClusterAdmin) (Answer, error) {
		configs := map[string]*string{}
		for name, value := range a.Configs {
			configs[name] = &value
		}
		detail := &sarama.TopicDetail{NumPartitions: a.partitionCount(), ReplicationFactor: 1, ConfigEntries: configs}
		return nil, admin.CreateTopic(a.Topic, detail, false)
	})
}

func saramaDeleteTopic(a Args) (Answer, error) {
	return saramaAdmin(a, func(admin sarama.ClusterAdmin) (Answer, error) { return nil, admin.DeleteTopic(a.Topic) })
}

func saramaCreatePartitions(a Args) (Answer, error) {
	return saramaAdmin(a, func(admin sarama.ClusterAdmin) (Answer, error) {
		return nil, admin.CreatePartitions(a.Topic, int32(a.Count), nil, false)
	})
}

func saramaListTopics(a Args) (Answer, error) {
	return saramaAdmin(a, func(admin sarama.ClusterAdmin) (Answer, error) {
		topics := map[string]int32{}
		listed, err := admin.ListTopics()
		for name, detail := range listed {
			topics[name] = detail.NumPartitions
		}
		return Answer{"topics": topics}, err
	})
}

func saramaTopicConfigs(a Args) (Answer, error) {
	return saramaAdmin(a, func(admin sarama.ClusterAdmin) (Answer, error) {
		entries, err := admin.DescribeConfig(sarama.ConfigResource{Type: sarama.TopicResource, Name: a.Topic})
		configs := map[string]string{}
		for _, entry := range entries {
			configs[entry.Name] = entry.Value
		}
		return Answer{"configs": configs}, err
	})
}

func saramaAlterTopicConfigs(a Args) (Answer, error) {
	return saramaAdmin(a, func(admin sarama.ClusterAdmin) (Answer, error) {
		changes := map[string]sarama.IncrementalAlterConfigsEntry{}
		for name, value := range a.Configs {
			changes[name] = sarama.IncrementalAlterConfigsEntry{
				Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &value,
			}
		}
		return nil, admin.IncrementalAlterConfig(sarama.TopicResource, a.Topic, changes, false)
	})
}

func saramaDeleteRecords(a Args) (Answer, error) {
	return saramaAdmin(a, func(admin sarama.ClusterAdmin) (Answer, error) {
		// This client does not hand out the low watermark the broker answers.
		return nil, admin.DeleteRecords(a.Topic, map[int32]int64{a.Partition: a.Before})
	})
}

func saramaListGroups(a Args) (Answer, error) {
	return saramaAdmin(a, func(admin sarama.ClusterAdmin) (Answer, error) {
		groups := []string{}
		listed, err := admin.ListConsumerGroups()
		for name := range listed {
			groups = append(groups, name)
		}
		return Answer{"groups": groups}, err
	})
}

func saramaDescribeGroup(a Args) (Answer, error) {
	return saramaAdmin(a, func(admin sarama.ClusterAdmin) (Answer, error) {
		described, err := admin.DescribeConsumerGroups([]string{a.Group})
		if err != nil {
			return nil, err
		}
		if described[0].Err != sarama.ErrNoError {
			return nil, described[0].Err
		}
		return Answer{"state": described[0].State, "members": len(described[0].Members)}, nil
	})
}

func saramaDeleteGroup(a Args) (Answer, error) {
	return saramaAdmin(a, func(admin sarama.ClusterAdmin) (Answer, error) {
		return nil, admin.DeleteConsumerGroup(a.Group)
	})
}

func saramaCommitted(a Args) (Answer, error) {
	return saramaAdmin(a, func(admin sarama.ClusterAdmin) (Answer, error) {
		fetched, err := admin.ListConsumerGroupOffsets(a.Group, map[string][]int32{a.Topic: a.partitionList()})
		if err != nil {
			return nil, err
		}
		offsets := []any{}
		for _, partition := range a.partitionList() {
			offsets = append(offsets, offsetOrNull(fetched.GetBlock(a.Topic, partition).Offset))
		}
		return Answer{"offsets": offsets}, nil
	})
}
