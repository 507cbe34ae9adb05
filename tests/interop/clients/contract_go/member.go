package contract

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

// Joining is how a member enters its group. Protocol is in the client's own words; no Instance: "".
type Joining struct {
	Group, Topic, Protocol, Instance string
	Session, Heartbeat               time.Duration
}

// CommitEvery is how often a member commits what it has received.
const CommitEvery = 200 * time.Millisecond

// Events says what happens to a member, a line each. It keeps what was received and not yet committed.
type Events struct {
	lock      sync.Mutex
	positions map[int32]int64
}

const clockMonotonic = 1

// now is the clock that all processes share.
func now() int64 {
	var at syscall.Timespec
	syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&at)), 0)
	return at.Nano()
}

func (e *Events) say(event string, fields map[string]any) {
	line := map[string]any{"at": now(), "event": event}
	for name, value := range fields {
		line[name] = value
	}
	text, _ := json.Marshal(line)
	os.Stdout.Write(append(text, '\n'))
}

func (e *Events) partitions(event string, partitions []int32) {
	e.lock.Lock()
	defer e.lock.Unlock()
	if len(partitions) > 0 {
		e.say(event, map[string]any{"partitions": partitions})
	}
	for _, partition := range partitions {
		delete(e.positions, partition)
	}
}

// Assigned is said before the first record.
func (e *Events) Assigned(partitions []int32) { e.partitions("assigned", partitions) }

// Revoked is the last that is said of partitions that the group asked for.
func (e *Events) Revoked(partitions []int32) { e.partitions("revoked", partitions) }

// Lost is said of partitions that others may have by now.
func (e *Events) Lost(partitions []int32) { e.partitions("lost", partitions) }

// Record is one received.
func (e *Events) Record(partition int32, offset int64) {
	e.lock.Lock()
	defer e.lock.Unlock()
	e.say("record", map[string]any{"partition": partition, "offset": offset})
	e.positions[partition] = offset + 1
}

// Due is what has not been committed, of these partitions or of all (nil).
func (e *Events) Due(of []int32) map[int32]int64 {
	e.lock.Lock()
	defer e.lock.Unlock()
	due := map[int32]int64{}
	for partition, position := range e.positions {
		if of == nil || contains(of, partition) {
			due[partition] = position
		}
	}
	return due
}

func contains(list []int32, partition int32) bool {
	for _, one := range list {
		if one == partition {
			return true
		}
	}
	return false
}

// Committed is said once the broker has acknowledged these.
func (e *Events) Committed(offsets map[int32]int64) {
	e.lock.Lock()
	defer e.lock.Unlock()
	for partition, position := range offsets {
		if e.positions[partition] == position {
			delete(e.positions, partition)
		}
	}
	e.say("committed", map[string]any{"offsets": offsets})
}

// Refused is a commit that was not taken.
func (e *Events) Refused(name string) { e.say("refused", map[string]any{"error": name}) }

// Error is any other that the client tells.
func (e *Events) Error(name string) { e.say("error", map[string]any{"error": name}) }

// ErrorName is a code as the protocol calls it, of those that tell what became of a member.
func ErrorName(code int) string {
	names := map[int]string{22: "ILLEGAL_GENERATION", 25: "UNKNOWN_MEMBER_ID", 27: "REBALANCE_IN_PROGRESS",
		79: "MEMBER_ID_REQUIRED", 82: "FENCED_INSTANCE_ID", 110: "FENCED_MEMBER_EPOCH",
		111: "UNRELEASED_INSTANCE_ID", 113: "STALE_MEMBER_EPOCH"}
	if name, ok := names[code]; ok {
		return name
	}
	return strconv.Itoa(code)
}

// member runs one until the input closes.
func member(client Client, args []string) error {
	if client.Member == nil {
		return Unsupported("no groups in this client")
	}
	ms := func(text string) time.Duration { return time.Duration(number(text)) * time.Millisecond }
	joining := Joining{Group: args[0], Topic: args[1], Protocol: args[2], Instance: args[3],
		Session: ms(args[4]), Heartbeat: ms(args[5])}
	if joining.Instance == "-" {
		joining.Instance = ""
	}
	events := &Events{positions: map[int32]int64{}}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	events.say("ready", nil)
	input := bufio.NewReader(os.Stdin)
	input.ReadString('\n')
	go func() {
		input.ReadString(0)
		cancel()
	}()
	err := client.Member(ctx, joining, events)
	if err == nil {
		events.say("closed", nil)
	}
	return err
}
