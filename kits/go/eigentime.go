// Package eigentime makes time a test fixture: programs and containers that a test starts get clocks of
// their own, which the test moves.
//
//	func TestTokenExpires(t *testing.T) {
//		tl := eigentime.New(t, eigentime.Date("2038-01-19"))
//		server := tl.Command("./server")
//		...
//		tl.Leap(30 * 24 * time.Hour)
//		...
//	}
//
// The clocks are those of a timeline of Eigentime, which the command eigentime makes. It is the one that the
// environment variable EIGENTIME names, or else the one on PATH. The methods have the names and the meaning
// of the protocol of timelines, docs/guide/control.md in the repository of Eigentime.
package eigentime

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// Timeline is a timeline of Eigentime. Its methods may be called by several goroutines at a time.
type Timeline struct {
	name    string
	binary  string
	runtime string // EIGENTIME_RUNTIME_DIR of its programs, or "" for the directories of the user
	own     string // the same, if it was made for this timeline alone

	mutex      sync.Mutex // of connection, on which one request is made at a time
	connection *connection
}

// Create makes a timeline. Without [Name] and [Joinable], no other program finds it. Close ends it.
func Create(ctx context.Context, options ...Option) (*Timeline, error) {
	var creation creation
	for _, option := range options {
		option.create(&creation)
	}
	timeline, err := newTimeline(creation.name)
	switch {
	case err != nil:
		return nil, err
	case creation.name == "" && creation.joinable:
		timeline.name = fmt.Sprintf("test-%016x", rand.Uint64())
	case creation.name == "":
		// Its path may be longer than that of a socket, since both sides reach the socket by /proc/self/fd.
		timeline.name = "test"
		if timeline.own, err = os.MkdirTemp("", "eigentime-"); err != nil {
			return nil, err
		}
		timeline.runtime = timeline.own
	}
	if err := timeline.create(ctx, creation); err != nil {
		return nil, errors.Join(err, os.RemoveAll(timeline.own))
	}
	return timeline, nil
}

// Open finds an existing timeline of the user by its name, such as the timeline of a container.
func Open(name string) (*Timeline, error) {
	timeline, err := newTimeline(name)
	if err != nil {
		return nil, err
	}
	if _, err := timeline.Info(); err != nil {
		return nil, err
	}
	return timeline, nil
}

// Name is its name, by which `eigentime ctl` and containers find it, unless it is private.
func (timeline *Timeline) Name() string { return timeline.name }

// Command is a command that runs on the timeline; otherwise it is as made by [exec.Command]. The program is
// looked for when the command runs: if it is missing, the command ends with status 127.
func (timeline *Timeline) Command(name string, arguments ...string) *exec.Cmd {
	return timeline.CommandContext(context.Background(), name, arguments...)
}

// CommandContext is Command with a context: when ctx is done, the program is killed. Its deadline is one of
// the test's clock and not of the timeline's.
func (timeline *Timeline) CommandContext(ctx context.Context, name string, arguments ...string) *exec.Cmd {
	// Not in the command's Env, since callers replace that: the command would make another timeline of the
	// same name then. If it is empty, the variable counts as missing.
	words := []string{runtimeVariable + "=" + timeline.runtime, timeline.binary, "run", "--timeline", timeline.name, "--existing", "--", name}
	return exec.CommandContext(ctx, "env", append(words, arguments...)...)
}

// Close ends the timeline and its members. It is no error if the timeline has ended before.
func (timeline *Timeline) Close() error {
	err := timeline.call("remove", params{"force": true}, nil)
	if errors.Is(err, errGone) {
		err = nil
	}
	timeline.mutex.Lock()
	defer timeline.mutex.Unlock()
	timeline.hangUp()
	return errors.Join(err, os.RemoveAll(timeline.own))
}

// create runs the command that makes the timeline, and connects to it.
func (timeline *Timeline) create(ctx context.Context, creation creation) error {
	// A file and not a pipe, since the supervisor of the timeline keeps it open.
	complaints, err := os.CreateTemp("", "eigentime-")
	if err != nil {
		return err
	}
	defer os.Remove(complaints.Name())
	defer complaints.Close()
	words := append([]string{"ctl", "create", timeline.name}, creation.arguments...)
	command := exec.CommandContext(ctx, timeline.binary, words...)
	// If it is empty, the variable counts as missing.
	command.Env = append(os.Environ(), runtimeVariable+"="+timeline.runtime)
	command.Stderr = complaints
	command.Stdin = bytes.NewReader(creation.saved)
	if err := command.Run(); err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("eigentime ctl create: %w", ctx.Err())
		}
		text := make([]byte, 1<<16)
		length, _ := complaints.ReadAt(text, 0) // at the end of the file, the error is io.EOF
		// Lines of a message, then one of help.
		message, help, _ := strings.Cut(strings.TrimSpace(string(text[:length])), "\nhelp: ")
		message = strings.TrimPrefix(message, "eigentime: ")
		return &Error{Code: CodeCommand, Message: cmp.Or(message, err.Error()), Help: help}
	}
	_, err = timeline.Info()
	return err
}

const runtimeVariable = "EIGENTIME_RUNTIME_DIR"

// newTimeline finds the command eigentime for a timeline of this name.
func newTimeline(name string) (*Timeline, error) {
	binary, err := exec.LookPath(cmp.Or(os.Getenv("EIGENTIME"), "eigentime"))
	if err != nil {
		return nil, &Error{
			Code:    CodeCommand,
			Message: fmt.Sprintf("the command eigentime is missing: %v", err),
			Help:    "install Eigentime, and put the command on PATH or its path into the environment variable EIGENTIME",
		}
	}
	if binary, err = filepath.Abs(binary); err != nil {
		return nil, err
	}
	return &Timeline{name: name, binary: binary, runtime: os.Getenv(runtimeVariable)}, nil
}
