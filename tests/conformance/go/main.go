// The Go clients under the conformance suite's driver protocol: one JSON object a line in, one answer a line out.
// `go-driver franz` drives franz-go, `go-driver sarama` drives sarama.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Args are the arguments of every operation; each operation reads those it knows.
type Args struct {
	Bootstrap        string            `json:"bootstrap"`
	Handle           string            `json:"handle"`
	ID               string            `json:"id"`
	Protocol         string            `json:"protocol"`
	Topic            string            `json:"topic"`
	Topics           []string          `json:"topics"`
	Partition        int32             `json:"partition"`
	Records          []Record          `json:"records"`
	Acks             string            `json:"acks"`
	Compression      string            `json:"compression"`
	Idempotent       bool              `json:"idempotent"`
	Count            int               `json:"count"`
	Size             int               `json:"size"`
	RatePerS         int               `json:"rate_per_s"`
	Offset           json.RawMessage   `json:"offset"`
	TimeoutMs        int               `json:"timeout_ms"`
	ForMs            int               `json:"for_ms"`
	Summary          bool              `json:"summary"`
	Timestamps       []int64           `json:"timestamps"`
	Group            string            `json:"group"`
	Assignor         string            `json:"assignor"`
	InstanceID       string            `json:"instance_id"`
	SessionTimeoutMs int               `json:"session_timeout_ms"`
	Configs          map[string]string `json:"configs"`
	Before           int64             `json:"before"`
	Clients          int               `json:"clients"`
	Large            bool              `json:"large"`
	Security         Security          `json:"security"`
	Framing          Framing           `json:"framing"`
	// A number for create_topic and flood, a list for consume and committed.
	Partitions json.RawMessage `json:"partitions"`
}

// Record is one record as the protocol carries it: bytes as base64, null as null.
type Record struct {
	Partition     *int32        `json:"partition"`
	Offset        int64         `json:"offset"`
	Timestamp     *int64        `json:"timestamp"`
	TimestampType *int8         `json:"timestamp_type"`
	Key           []byte        `json:"key"`
	Value         []byte        `json:"value"`
	Headers       []headerEntry `json:"headers"`
}

// headerEntry travels as [name, value].
type headerEntry struct {
	name  string
	value []byte
}

func (h headerEntry) MarshalJSON() ([]byte, error) { return json.Marshal([]any{h.name, h.value}) }

func (h *headerEntry) UnmarshalJSON(data []byte) error {
	var parts [2]json.RawMessage
	if err := json.Unmarshal(data, &parts); err != nil {
		return err
	}
	if err := json.Unmarshal(parts[0], &h.name); err != nil {
		return err
	}
	return json.Unmarshal(parts[1], &h.value)
}

// Answer is what an operation returns.
type Answer = map[string]any

// Operation is one row of a driver's table.
type Operation func(Args) (Answer, error)

// batchBytes bounds a producer's batches: below the brokers' default limit unless larger records follow.
func (a Args) batchBytes() int32 {
	if a.Large {
		return 4 << 20
	}
	return 1_000_000
}

// partitionCount reads Partitions where it is a number.
func (a Args) partitionCount() int32 {
	var count int32
	must(json.Unmarshal(a.Partitions, &count))
	return count
}

// partitionList reads Partitions where it is a list.
func (a Args) partitionList() []int32 {
	var list []int32
	must(json.Unmarshal(a.Partitions, &list))
	return list
}

// startOffset is -2 for "earliest".
func (a Args) startOffset() int64 {
	var offset int64
	if string(a.Offset) == `"earliest"` {
		return -2
	}
	must(json.Unmarshal(a.Offset, &offset))
	return offset
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// floodValue is the generated value: the record's number in eight digits, then dots.
func floodValue(index, size int) []byte {
	value := make([]byte, size)
	copy(value, fmt.Sprintf("%08d", index))
	for i := 8; i < size; i++ {
		value[i] = '.'
	}
	return value
}

// pace sleeps so that a flood keeps its rate.
func (a Args) pace(began time.Time, index int) {
	if a.RatePerS > 0 && index%50 == 49 {
		time.Sleep(time.Until(began.Add(time.Duration(index) * time.Second / time.Duration(a.RatePerS))))
	}
}

// Collector gathers the records of one consume, whole or summed up.
type Collector struct {
	mu      sync.Mutex
	wanted  int
	taken   int
	summary bool
	records []Record
	bytes   int
	crc     uint32
	ordered bool
	last    map[int32][2]int64
}

func newCollector(a Args) *Collector {
	return &Collector{
		wanted: a.Count, summary: a.Summary, ordered: true, records: []Record{}, last: map[int32][2]int64{},
	}
}

// add takes one record and says whether more are wanted.
func (c *Collector) add(r Record) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.taken >= c.wanted {
		return false
	}
	c.taken++
	if !c.summary {
		c.records = append(c.records, r)
		return c.taken < c.wanted
	}
	number, err := strconv.ParseInt(string(r.Value[:8]), 10, 64)
	must(err)
	last, seen := c.last[*r.Partition]
	if seen && (r.Offset <= last[0] || number <= last[1]) {
		c.ordered = false
	}
	c.last[*r.Partition] = [2]int64{r.Offset, number}
	c.bytes += len(r.Value)
	c.crc += crc32.ChecksumIEEE(r.Value)
	return c.taken < c.wanted
}

func (c *Collector) open() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.taken < c.wanted
}

func (c *Collector) answer() Answer {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.summary {
		return Answer{"count": c.taken, "bytes": c.bytes, "crc": c.crc, "ordered": c.ordered}
	}
	return Answer{"records": c.records}
}

// owned is one partition of an assignment.
type owned struct {
	topic     string
	partition int32
}

// MemberState is what a group member has seen.
type MemberState struct {
	mu         sync.Mutex
	assignment map[owned]bool
	records    [][]any
	lost       [][]any
	err        error
}

func newMemberState() *MemberState {
	return &MemberState{assignment: map[owned]bool{}, records: [][]any{}, lost: [][]any{}}
}

func (m *MemberState) assigned(partitions map[string][]int32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for topic, list := range partitions {
		for _, partition := range list {
			m.assignment[owned{topic, partition}] = true
		}
	}
}

func (m *MemberState) revoked(partitions map[string][]int32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for topic, list := range partitions {
		for _, partition := range list {
			delete(m.assignment, owned{topic, partition})
			m.lost = append(m.lost, []any{topic, partition})
		}
	}
}

func (m *MemberState) record(topic string, partition int32, offset int64, value []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.records = append(m.records, []any{topic, partition, offset, value})
}

func (m *MemberState) fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.err = err
}

func (m *MemberState) answer() (Answer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	assignment := [][]any{}
	for each := range m.assignment {
		assignment = append(assignment, []any{each.topic, each.partition})
	}
	slices.SortFunc(assignment, func(a, b []any) int { return int(a[1].(int32) - b[1].(int32)) })
	return Answer{"assignment": assignment, "records": slices.Clone(m.records), "lost": m.lost}, m.err
}

// run answers requests until standard input ends; code finds Kafka's error code in an error.
func run(operations map[string]Operation, code func(error) any) {
	input := bufio.NewReaderSize(os.Stdin, 1<<20)
	output := json.NewEncoder(os.Stdout)
	decoder := json.NewDecoder(input)
	for {
		var request struct {
			ID   int    `json:"id"`
			Op   string `json:"op"`
			Args Args   `json:"args"`
		}
		if decoder.Decode(&request) != nil {
			return
		}
		answer := Answer{"id": request.ID}
		ok, err := operations[request.Op](request.Args)
		switch {
		case err != nil:
			answer["error"] = Answer{"code": code(err), "message": err.Error()}
		case ok == nil:
			answer["ok"] = Answer{}
		default:
			answer["ok"] = ok
		}
		must(output.Encode(answer))
	}
}

func main() {
	switch os.Args[1] {
	case "franz":
		franz()
	case "sarama":
		runSarama()
	}
}
