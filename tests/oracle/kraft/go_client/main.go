// What a Go client does with a cluster: franz-go as an administrator, a producer, a consumer in a group, and a copier
// in transactions. It prints what it saw, as JSON, and ends with an error at the first thing that is wrong.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	records = 300
	input   = "go-input"
	output  = "go-output"
)

type seen struct {
	ClusterID  string
	Brokers    []int32
	Partitions map[string]int
	Retention  string
	Committed  map[string]int // How often each value is in the output, to readers of what is committed.
	Groups     []string
	Left       []string // The topics that are there at the end.
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()
	seeds := strings.Split(os.Args[1], ",")
	told := seen{Partitions: map[string]int{}, Committed: map[string]int{}}
	client := must(kgo.NewClient(kgo.SeedBrokers(seeds...), kgo.MetadataMinAge(100*time.Millisecond)))
	defer client.Close()
	admin := kadm.NewClient(client)
	create(ctx, admin, &told)
	produce(ctx, client)
	copyInTransactions(ctx, seeds)
	read(ctx, seeds, &told)
	remove(ctx, admin, &told)
	check(json.NewEncoder(os.Stdout).Encode(told))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

func create(ctx context.Context, admin *kadm.Client, told *seen) {
	meta := must(admin.BrokerMetadata(ctx))
	told.ClusterID, told.Brokers = meta.Cluster, meta.Brokers.NodeIDs()
	retention := "123456789"
	for _, topic := range []string{input, output} {
		settings := map[string]*string{"retention.ms": &retention}
		check(must(admin.CreateTopics(ctx, 2, 3, settings, topic)).Error())
	}
	check(must(admin.CreatePartitions(ctx, 1, input)).Error())
	change := kadm.AlterConfig{Op: kadm.SetConfig, Name: "retention.ms", Value: kadm.StringPtr("987654321")}
	for _, each := range must(admin.AlterTopicConfigs(ctx, []kadm.AlterConfig{change}, input)) {
		check(each.Err)
	}
	for { // Until the broker that is asked knows of it.
		topics, settings := must(admin.ListTopics(ctx, input, output)), must(admin.DescribeTopicConfigs(ctx, input))
		for _, each := range topics {
			told.Partitions[each.Topic] = len(each.Partitions)
		}
		for _, config := range settings[0].Configs {
			if config.Key == "retention.ms" {
				told.Retention = config.MaybeValue()
			}
		}
		if told.Partitions[input] == 3 && told.Retention == "987654321" {
			return
		}
		check(ctx.Err())
		time.Sleep(100 * time.Millisecond)
	}
}

func produce(ctx context.Context, client *kgo.Client) {
	for number := range records {
		client.Produce(ctx, &kgo.Record{Topic: input, Value: fmt.Appendf(nil, "v%d", number)}, func(_ *kgo.Record, err error) {
			check(err)
		})
	}
	check(client.Flush(ctx))
}

// Every third transaction is aborted, and its records are copied again by a later one.
func copyInTransactions(ctx context.Context, seeds []string) {
	session := must(kgo.NewGroupTransactSession(
		kgo.SeedBrokers(seeds...),
		kgo.TransactionalID("go-copier"),
		kgo.ConsumerGroup("go-group"),
		kgo.ConsumeTopics(input),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.RequireStableFetchOffsets(),
	))
	defer session.Close()
	for turn, copied := 1, 0; copied < records; turn++ {
		fetches := session.PollRecords(ctx, 50)
		check(ctx.Err())
		for _, each := range fetches.Errors() {
			check(each.Err)
		}
		check(session.Begin())
		fetches.EachRecord(func(record *kgo.Record) {
			session.Produce(ctx, &kgo.Record{Topic: output, Value: record.Value}, nil)
		})
		committed := must(session.End(ctx, kgo.TransactionEndTry(turn%3 != 0)))
		if committed {
			copied += fetches.NumRecords()
		}
	}
}

func read(ctx context.Context, seeds []string, told *seen) {
	reader := must(kgo.NewClient(
		kgo.SeedBrokers(seeds...),
		kgo.ConsumeTopics(output),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
	))
	defer reader.Close()
	for len(told.Committed) < records {
		fetches := reader.PollFetches(ctx)
		check(ctx.Err())
		fetches.EachRecord(func(record *kgo.Record) { told.Committed[string(record.Value)]++ })
	}
}

func remove(ctx context.Context, admin *kadm.Client, told *seen) {
	told.Groups = must(admin.ListGroups(ctx)).Groups()
	for {
		deleted := must(admin.DeleteGroups(ctx, "go-group"))
		if err := deleted.Error(); err == nil {
			break
		}
		check(ctx.Err())
		time.Sleep(100 * time.Millisecond)
	}
	check(must(admin.DeleteTopics(ctx, input, output)).Error())
	for {
		told.Left = must(admin.ListTopics(ctx)).Names()
		if !strings.Contains(strings.Join(told.Left, " "), "go-") {
			return
		}
		check(ctx.Err())
		time.Sleep(100 * time.Millisecond)
	}
}
