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
)

var (
	sinkRequest kmsg.Request // What a run made stays reachable, so that no work is dropped.
	sinkBytes   []byte
)

// subject is one measured case, such as decode:LeaderAndIsrRequest:7:uniform.
type subject struct {
	operation  string
	message    string
	version    int16
	data       []byte
	decoded    kmsg.Request
	reused     []byte
	partitions int
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
	data, err := os.ReadFile(filepath.Join(directory, strings.Join(words[1:], ".")+".bin"))
	if err != nil {
		return nil, err
	}
	s := &subject{operation: words[0], message: words[1], version: int16(version), data: data}
	if s.operation == "memory" {
		return s, nil
	}
	if s.decoded, err = s.decode(); err != nil {
		return nil, err
	}
	s.partitions = countPartitions(s.decoded)
	s.reused = make([]byte, 0, len(data))
	return s, nil
}

func (s *subject) decode() (kmsg.Request, error) {
	var request kmsg.Request
	switch s.message {
	case "LeaderAndIsrRequest":
		request = kmsg.NewPtrLeaderAndISRRequest()
	case "UpdateMetadataRequest":
		request = kmsg.NewPtrUpdateMetadataRequest()
	default:
		return nil, fmt.Errorf("no message %s", s.message)
	}
	request.SetVersion(s.version)
	return request, request.ReadFrom(s.data)
}

func countPartitions(request kmsg.Request) int {
	count := 0
	switch r := request.(type) {
	case *kmsg.LeaderAndISRRequest:
		for i := range r.TopicStates {
			count += len(r.TopicStates[i].PartitionStates)
		}
	case *kmsg.UpdateMetadataRequest:
		for i := range r.TopicStates {
			count += len(r.TopicStates[i].PartitionStates)
		}
	}
	return count
}

func setBrokerEpoch(request kmsg.Request, epoch int64) {
	switch r := request.(type) {
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
		sinkRequest, err = s.decode()
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
		sinkBytes = sinkRequest.AppendTo(nil)
	}
	return struct{}{}, os.WriteFile(path, sinkBytes, 0o644)
}

func (s *subject) time(seconds float64) (any, error) {
	var ns []float64
	end := time.Now().Add(time.Duration(seconds * float64(time.Second)))
	for len(ns) < minRounds || time.Now().Before(end) {
		start := time.Now()
		if err := s.run(); err != nil {
			return nil, err
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
