// The Go peer: franz-go's kmsg. Answers the harness line by line, as bench/rivals/README.md has it.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	furtherBrokerEpoch = 381
	minRounds          = 3
	smallRepeats       = 200 // Runs of a round where one small message is too short for the clock.
)

var (
	sinkMessage message // What a run made stays reachable, so that no work is dropped.
	sinkBytes   []byte
)

// message is what requests and responses have in common.
type message interface {
	SetVersion(int16)
	MaxVersion() int16
	ReadFrom([]byte) error
	AppendTo([]byte) []byte
}

// StopReplica is not here: kmsg has the first fields of its version 4 in another order than Kafka.
var messages = map[string]func() message{
	"LeaderAndIsrRequest":         func() message { return kmsg.NewPtrLeaderAndISRRequest() },
	"UpdateMetadataRequest":       func() message { return kmsg.NewPtrUpdateMetadataRequest() },
	"VoteRequest":                 func() message { return kmsg.NewPtrVoteRequest() },
	"BrokerHeartbeatRequest":      func() message { return kmsg.NewPtrBrokerHeartbeatRequest() },
	"BrokerRegistrationRequest":   func() message { return kmsg.NewPtrBrokerRegistrationRequest() },
	"FetchRequest":                func() message { return kmsg.NewPtrFetchRequest() },
	"FetchResponse":               func() message { return kmsg.NewPtrFetchResponse() },
	"AlterPartitionRequest":       func() message { return kmsg.NewPtrAlterPartitionRequest() },
	"EnvelopeRequest":             func() message { return kmsg.NewPtrEnvelopeRequest() },
	"AssignReplicasToDirsRequest": func() message { return kmsg.NewPtrAssignReplicasToDirsRequest() },
	"DescribeQuorumResponse":      func() message { return kmsg.NewPtrDescribeQuorumResponse() },
	"MetadataResponse":            func() message { return kmsg.NewPtrMetadataResponse() },
	"CreateTopicsRequest":         func() message { return kmsg.NewPtrCreateTopicsRequest() },
}

// subject is one measured case, such as decode:LeaderAndIsrRequest:7:uniform.
type subject struct {
	operation  string
	empty      func() message
	version    int16
	data       []byte
	decoded    message
	reused     []byte
	partitions int
	repeats    int
}

func newSubject(directory, name string) (*subject, error) {
	words := strings.Split(name, ":")
	if len(words) != 4 {
		return nil, nil
	}
	version, err := strconv.ParseInt(words[2], 10, 16)
	if err != nil {
		return nil, err
	}
	empty := messages[words[1]]
	if empty == nil || int64(empty().MaxVersion()) < version {
		return nil, nil
	}
	data, err := os.ReadFile(filepath.Join(directory, strings.Join(words[1:], ".")+".bin"))
	if err != nil {
		return nil, err
	}
	s := &subject{operation: words[0], empty: empty, version: int16(version), data: data, repeats: 1}
	if s.operation == "memory" {
		return s, nil
	}
	if s.decoded, err = s.decode(); err != nil {
		return nil, err
	}
	s.partitions = countPartitions(s.decoded)
	if words[3] == "small" {
		s.repeats, s.partitions = smallRepeats, smallRepeats
	}
	s.reused = make([]byte, 0, len(data))
	return s, nil
}

func (s *subject) decode() (message, error) {
	made := s.empty()
	made.SetVersion(s.version)
	return made, made.ReadFrom(s.data)
}

// countPartitions is 1 for the messages that are counted as a whole.
func countPartitions(decoded message) int {
	count := 0
	switch r := decoded.(type) {
	case *kmsg.LeaderAndISRRequest:
		for i := range r.TopicStates {
			count += len(r.TopicStates[i].PartitionStates)
		}
	case *kmsg.UpdateMetadataRequest:
		for i := range r.TopicStates {
			count += len(r.TopicStates[i].PartitionStates)
		}
	default:
		count = 1
	}
	return count
}

func setBrokerEpoch(decoded message, epoch int64) {
	switch r := decoded.(type) {
	case *kmsg.LeaderAndISRRequest:
		r.BrokerEpoch = epoch
	case *kmsg.UpdateMetadataRequest:
		r.BrokerEpoch = epoch
	}
}

func (s *subject) run() error {
	var err error
	switch s.operation {
	case "decode":
		sinkMessage, err = s.decode()
	case "encode":
		sinkBytes = s.decoded.AppendTo(s.reused[:0])
	case "encode_fresh":
		sinkBytes = s.decoded.AppendTo(nil)
	case "fanout":
		setBrokerEpoch(s.decoded, furtherBrokerEpoch)
		sinkBytes = s.decoded.AppendTo(s.reused[:0])
	default:
		err = fmt.Errorf("no operation %s", s.operation)
	}
	return err
}

// check is the result as bytes, to be compared with the other peers' before any time is believed.
func (s *subject) check(path string) (any, error) {
	if err := s.run(); err != nil {
		return nil, err
	}
	if s.operation == "decode" {
		sinkBytes = sinkMessage.AppendTo(nil)
	}
	return struct{}{}, os.WriteFile(path, sinkBytes, 0o644)
}

func (s *subject) time(seconds float64) (any, error) {
	var ns []float64
	end := time.Now().Add(time.Duration(seconds * float64(time.Second)))
	for len(ns) < minRounds || time.Now().Before(end) {
		start := time.Now()
		for i := 0; i < s.repeats; i++ {
			if err := s.run(); err != nil {
				return nil, err
			}
		}
		ns = append(ns, float64(time.Since(start).Nanoseconds())/float64(s.partitions))
	}
	return map[string][]float64{"ns": ns}, nil
}

func (s *subject) memory() (any, error) {
	before := liveBytes()
	kept, err := s.decode()
	if err != nil {
		return nil, err
	}
	mib := float64(liveBytes()-before) / (1 << 20)
	runtime.KeepAlive(kept)
	return map[string]float64{"mib": mib}, nil
}

func liveBytes() int64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

func answer(words []string, directory string, made map[string]*subject) (any, error) {
	s := made[words[1]]
	if s == nil {
		var err error
		if s, err = newSubject(directory, words[1]); err != nil {
			return nil, err
		}
		if s == nil {
			return map[string]string{"skip": "not supported"}, nil
		}
		made[words[1]] = s
	}
	switch words[0] {
	case "check":
		return s.check(words[2])
	case "memory":
		return s.memory()
	}
	seconds, err := strconv.ParseFloat(words[2], 64)
	if err != nil {
		return nil, err
	}
	return s.time(seconds)
}

func main() {
	directory := os.Args[2]
	made := map[string]*subject{}
	out := json.NewEncoder(os.Stdout)
	for commands := bufio.NewScanner(os.Stdin); commands.Scan(); {
		reply, err := answer(strings.Fields(commands.Text()), directory, made)
		if err != nil {
			reply = map[string]string{"error": err.Error()}
		}
		if err := out.Encode(reply); err != nil {
			os.Exit(1)
		}
	}
}
