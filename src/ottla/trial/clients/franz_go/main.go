// franz-go for trials: docs/trial-clients.md says what the lines hold.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

type start struct {
	Servers  string         `json:"bootstrap.servers"`
	Topic    string         `json:"topic"`
	Settings map[string]any `json:"settings"`
}

// Bytes are base64 in JSON, as Go has it anyway.
type record struct {
	Number    *int                 `json:"number"`
	Partition *int32               `json:"partition"`
	Key       []byte               `json:"key"`
	Value     []byte               `json:"value"`
	Headers   [][2]json.RawMessage `json:"headers"`
}

var writing sync.Mutex

func say(line map[string]any) {
	writing.Lock()
	defer writing.Unlock()
	text, _ := json.Marshal(line)
	os.Stdout.Write(append(text, '\n'))
}

func main() {
	lines := bufio.NewReaderSize(os.Stdin, 1<<20)
	var told start
	first, _ := lines.ReadBytes('\n')
	if err := json.Unmarshal(first, &told); err != nil {
		fail(err)
	}
	options, without := options(told.Settings)
	options = append(options, kgo.SeedBrokers(strings.Split(told.Servers, ",")...), kgo.DefaultProduceTopic(told.Topic))
	client, err := kgo.NewClient(options...)
	if err != nil {
		say(map[string]any{"client": "franz-go", "version": version(), "without": without, "impossible": err.Error()})
		return
	}
	say(map[string]any{"client": "franz-go", "version": version(), "without": without})
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			break
		}
		var given record
		if err := json.Unmarshal(line, &given); err != nil {
			fail(err)
		}
		if given.Number == nil {
			client.Flush(context.Background())
		} else {
			produce(client, given)
		}
	}
	client.Flush(context.Background())
	client.Close()
}

func produce(client *kgo.Client, given record) {
	made := &kgo.Record{Key: given.Key, Value: given.Value}
	if given.Partition != nil {
		made.Partition = *given.Partition
	}
	for _, header := range given.Headers {
		var one kgo.RecordHeader
		json.Unmarshal(header[0], &one.Key)
		json.Unmarshal(header[1], &one.Value)
		made.Headers = append(made.Headers, one)
	}
	client.Produce(context.Background(), made, func(sent *kgo.Record, err error) {
		if err == nil {
			say(map[string]any{
				"number": *given.Number, "outcome": "acked", "partition": sent.Partition, "offset": sent.Offset,
			})
		} else {
			// An error after a time-out or a retry does not say whether the record is stored.
			say(map[string]any{"number": *given.Number, "outcome": "unknown", "error": err.Error()})
		}
	})
}

// options are the settings under franz-go's names, and the names of those that it does not have.
func options(settings map[string]any) ([]kgo.Opt, []string) {
	made := []kgo.Opt{kgo.RecordPartitioner(kgo.ManualPartitioner())}
	without := []string{}
	idempotent := settings["enable.idempotence"] != false
	for name, value := range settings {
		number, _ := value.(float64)
		span := time.Duration(number) * time.Millisecond
		switch {
		case name == "acks" && fmt.Sprint(value) == "0":
			made = append(made, kgo.RequiredAcks(kgo.NoAck()))
		case name == "acks" && fmt.Sprint(value) == "1":
			made = append(made, kgo.RequiredAcks(kgo.LeaderAck()))
		case name == "acks":
			made = append(made, kgo.RequiredAcks(kgo.AllISRAcks()))
		case name == "enable.idempotence" && idempotent:
		case name == "enable.idempotence":
			made = append(made, kgo.DisableIdempotentWrite())
		case name == "max.in.flight.requests.per.connection":
			made = append(made, kgo.MaxProduceRequestsInflightPerBroker(int(number)))
		case name == "retries":
			made = append(made, kgo.RecordRetries(int(number)))
		case name == "delivery.timeout.ms":
			made = append(made, kgo.RecordDeliveryTimeout(span))
			if idempotent {
				// As in Kafka's own client it ends records that may be stored, too.
				made = append(made, kgo.AllowIdempotentProduceCancellation())
			}
		case name == "request.timeout.ms":
			made = append(made, kgo.ProduceRequestTimeout(span))
		case name == "retry.backoff.ms":
			made = append(made, kgo.RetryBackoffFn(func(int) time.Duration { return span }))
		case name == "linger.ms":
			made = append(made, kgo.ProducerLinger(span))
		case name == "batch.size":
			made = append(made, kgo.ProducerBatchMaxBytes(int32(number)))
		default:
			without = append(without, name)
		}
	}
	// Kafka's clients send five requests at once; franz-go sends one where idempotence is off.
	if _, isGiven := settings["max.in.flight.requests.per.connection"]; !isGiven && !idempotent {
		made = append(made, kgo.MaxProduceRequestsInflightPerBroker(5))
	}
	return made, without
}

func version() string {
	built, _ := debug.ReadBuildInfo()
	for _, each := range built.Deps {
		if each.Path == "github.com/twmb/franz-go" {
			return strings.TrimPrefix(each.Version, "v")
		}
	}
	return ""
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
