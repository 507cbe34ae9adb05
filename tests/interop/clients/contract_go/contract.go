// Package contract is what the client programs in Go share: the verbs of ../README.md and their JSON lines.
package contract

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"time"
)

// Record is a line of the contract; encoding/json gives bytes as base64 and nil as null.
type Record struct {
	Partition int32    `json:"partition"`
	Key       []byte   `json:"key"`
	Value     []byte   `json:"value"`
	Headers   []Header `json:"headers"`
	Timestamp int64    `json:"timestamp"`
	Offset    int64    `json:"offset"`
}

// Header is a pair in JSON.
type Header struct {
	Name  string
	Value []byte
}

// MarshalJSON gives [name, value].
func (h Header) MarshalJSON() ([]byte, error) { return json.Marshal([]any{h.Name, h.Value}) }

// UnmarshalJSON takes [name, value].
func (h *Header) UnmarshalJSON(data []byte) error {
	return json.Unmarshal(data, &[]any{&h.Name, &h.Value})
}

// Unsupported is the error of a verb that the client does not have.
type Unsupported string

func (u Unsupported) Error() string { return string(u) }

// Largest raises the client's own limits: the broker's is what is tested.
const Largest = 16 << 20

// Client has the verbs. Produce gives the offset of each record, in order.
type Client struct {
	Module  string // Its version is the client's.
	Lacks   map[string]string
	Create  func(ctx context.Context, topic string, partitions int32) error
	Delete  func(ctx context.Context, topic string) error
	Produce func(ctx context.Context, how How, records []Record) ([]int64, error)
	Read    func(ctx context.Context, topic string, partitions int32, put func(Record) error) error
	Lookup  func(ctx context.Context, topic string, partition int32, timestamp int64) (int64, error)
	Admin   func(ctx context.Context, topic string, timestamp int64) []Call
	Member  func(ctx context.Context, joining Joining, events *Events) error // Until ctx ends; nil: no groups.
}

// Call is one of the verb admin, in the order of asking.
type Call struct {
	Name string
	Ask  func() (any, error)
}

// ByDefault is how many records "produce by default" sends.
const ByDefault = 100

// How a topic is written.
type How struct {
	Topic, Codec string
	Acks         int16
	Idempotent   bool
}

// Main is PROGRAM BROKERS VERB ARGS...
func Main(connect func(brokers string) Client) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	out := bufio.NewWriter(os.Stdout)
	err := run(ctx, json.NewEncoder(out), connect(os.Args[1]), os.Args[2], os.Args[3:])
	cancel()
	var why Unsupported
	if errors.As(err, &why) {
		err = json.NewEncoder(out).Encode(map[string]string{"unsupported": string(why)})
	}
	if err = errors.Join(err, out.Flush()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out *json.Encoder, client Client, verb string, args []string) error {
	switch verb {
	case "versions":
		about := map[string]any{"client": client.Module, "version": version(client.Module)}
		if client.Lacks != nil {
			about["lacks"] = client.Lacks
		}
		return out.Encode(about)
	case "create":
		return client.Create(ctx, args[0], int32(number(args[1])))
	case "delete":
		return client.Delete(ctx, args[0])
	case "produce":
		return produce(ctx, out, client, args)
	case "read":
		return client.Read(ctx, args[0], int32(number(args[1])), func(r Record) error {
			if r.Headers == nil {
				r.Headers = []Header{}
			}
			return out.Encode(r)
		})
	case "lookup":
		offset, err := client.Lookup(ctx, args[0], int32(number(args[1])), number(args[2]))
		if err != nil {
			return err
		}
		return out.Encode(map[string]any{"offset": offset, "timestamp": nil})
	case "member":
		return member(client, args)
	case "admin":
		return admin(out, client.Admin(ctx, args[0], number(args[1])))
	}
	return fmt.Errorf("no such verb: %s", verb)
}

func produce(ctx context.Context, out *json.Encoder, client Client, args []string) error {
	var records []Record
	for in := json.NewDecoder(os.Stdin); in.More(); {
		var record Record
		if err := in.Decode(&record); err != nil {
			return err
		}
		records = append(records, record)
	}
	how := How{Topic: args[0], Codec: args[1], Acks: int16(number(args[2])), Idempotent: args[3] == "1"}
	offsets, err := client.Produce(ctx, how, records)
	if err != nil {
		return err
	}
	for i, offset := range offsets {
		if err := out.Encode(map[string]int64{"partition": int64(records[i].Partition), "offset": offset}); err != nil {
			return err
		}
	}
	return nil
}

func admin(out *json.Encoder, calls []Call) error {
	for _, call := range calls {
		answer, err := call.Ask()
		var why Unsupported
		if errors.As(err, &why) {
			err = out.Encode(map[string]string{"call": call.Name, "unsupported": string(why)})
		} else if err == nil {
			err = out.Encode(map[string]any{"call": call.Name, "answer": answer})
		}
		if err != nil {
			return fmt.Errorf("%s: %w", call.Name, err)
		}
	}
	return nil
}

func number(text string) int64 {
	value, _ := strconv.ParseInt(text, 10, 64)
	return value
}

func version(module string) string {
	info, _ := debug.ReadBuildInfo()
	for _, dependency := range info.Deps {
		if dependency.Path == module {
			return dependency.Version
		}
	}
	return "unknown"
}
