// Package eigentime makes time a test fixture: programs and containers that a test starts get their own
// clocks, which the test moves.
//
//	func TestTokenExpires(t *testing.T) {
//		tl := eigentime.New(t, eigentime.Date("2038-01-19"))
//		server := tl.Command("./server")
//		...
//		tl.Leap(30 * 24 * time.Hour)
//		...
//	}
//
// The clocks belong to a timeline of Eigentime, made by the command eigentime: the one named by the environment
// variable EIGENTIME, or else the one on PATH. The methods have the names and meanings of the timeline protocol,
// docs/guide/control.md in the repository of Eigentime.
package eigentime

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

// Timeline is a timeline of Eigentime. Its methods may be called from several goroutines at once.
type Timeline struct {
	name    string
	binary  string
	socket  string
	runtime string // EIGENTIME_RUNTIME_DIR of its programs, or "" if they need none: /tmp/eigentime-UID

	holder *exec.Cmd // removes the timeline when its standard input closes; nil if this process did not make it
	held   io.Closer // that input
	ending sync.Once
}

// Create makes a timeline. Without [Name] and [Joinable], no other program finds it. It ends with Close or when this
// process ends, for whatever reason.
func Create(ctx context.Context, options ...Option) (*Timeline, error) {
	var creation creation
	for _, option := range options {
		option.create(&creation)
	}
	timeline, err := newTimeline()
	if err != nil {
		return nil, err
	}
	words := append([]string{"ctl", "create", "--hold", "--json"}, creation.arguments...)
	if creation.name != "" {
		words = append(words, "--", creation.name)
	}
	if err := timeline.make(ctx, words, creation.saved); err != nil {
		return nil, err
	}
	return timeline, nil
}

// Open finds an existing timeline of the user by name, such as the timeline of a container.
func Open(name string) (*Timeline, error) {
	timeline, err := newTimeline()
	if err != nil {
		return nil, err
	}
	var complaints strings.Builder
	command := exec.Command(timeline.binary, "ctl", "show", "--json", "--", name)
	command.Stderr = &complaints
	shown, err := command.Output()
	return timeline, timeline.found(shown, complaints.String(), err)
}

// Name returns the name under which `eigentime ctl` and containers find the timeline, unless it is private.
func (timeline *Timeline) Name() string { return timeline.name }

// Command returns a command that runs on the timeline; otherwise it is like one from [exec.Command]. The program is
// looked up when the command runs: if it is missing, the command exits with status 127. If the timeline has ended,
// starting the command fails.
//
// A started command joins the timeline a moment later. To wait for that, for instance before a leap or a wait for
// [Empty], use [Timeline.Wait] for [Joined] with its Process.Pid.
func (timeline *Timeline) Command(name string, arguments ...string) *exec.Cmd {
	return timeline.CommandContext(context.Background(), name, arguments...)
}

// CommandContext is Command with a context: when ctx is done, the program is killed. The deadline is measured on
// the test's clock, not the timeline's.
func (timeline *Timeline) CommandContext(ctx context.Context, name string, arguments ...string) *exec.Cmd {
	// Not in the command's Env: callers replace that, and the command would not find the timeline. An empty
	// variable counts as unset.
	words := []string{"EIGENTIME_RUNTIME_DIR=" + timeline.runtime, timeline.binary, "run", "--timeline", timeline.name, "--existing", "--", name}
	command := exec.CommandContext(ctx, "env", append(words, arguments...)...)
	if _, err := os.Stat(timeline.socket); err != nil {
		command.Err = timeline.wrap("joining", err)
	}
	return command
}

// Close ends the timeline and its members. Closing a timeline that has already ended is not an error.
func (timeline *Timeline) Close() error {
	err := timeline.call("remove", params{"force": true}, nil)
	if errors.Is(err, errEnded) {
		err = nil
	}
	timeline.ending.Do(func() {
		if timeline.holder != nil {
			err = errors.Join(err, timeline.held.Close(), timeline.holder.Wait())
		}
	})
	return err
}

// make runs the command that makes the timeline, continuing from saved if it is not empty.
func (timeline *Timeline) make(ctx context.Context, words []string, saved []byte) error {
	var complaints strings.Builder
	command := exec.Command(timeline.binary, words...)
	command.Stderr = &complaints
	// Ctrl-C is meant for the process that started it.
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	input, inputError := command.StdinPipe()
	output, outputError := command.StdoutPipe()
	if err := errors.Join(inputError, outputError, command.Start()); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { input.Close() })()
	// An empty line terminates a truncated document. If this fails, the command says why.
	fmt.Fprintf(input, "%s\n\n", saved)
	told, err := bufio.NewReader(output).ReadBytes('\n')
	if ctx.Err() == nil && err == nil {
		timeline.holder, timeline.held = command, input
		return timeline.found(told, "", nil)
	}
	input.Close()
	err = command.Wait()
	if ctx.Err() != nil {
		return fmt.Errorf("eigentime ctl create: %w", ctx.Err())
	}
	return timeline.found(nil, complaints.String(), err)
}

// found parses the command's description of the timeline. Otherwise, the error holds its message with help or a tip;
// the usage text is left out.
func (timeline *Timeline) found(told []byte, complaints string, err error) error {
	place := struct{ Name, Socket string }{}
	if json.Unmarshal(told, &place) == nil {
		timeline.name, timeline.socket = place.Name, place.Socket
		if directory := filepath.Dir(place.Socket); filepath.Base(directory) == "eigentime" {
			timeline.runtime = filepath.Dir(directory)
		}
		return nil
	}
	said := strings.Replace(strings.TrimSpace(complaints), "\n\n  tip: ", "\nhelp: ", 1)
	said, _, _ = strings.Cut(said, "\n\n")
	message, help, _ := strings.Cut(said, "\nhelp: ")
	message = strings.TrimPrefix(strings.TrimPrefix(message, "eigentime: "), "error: ")
	if message == "" {
		message, help = fmt.Sprintf("'%s' tells of no timeline (%v)", timeline.binary, cmp.Or(err, errors.New("exit status 0"))), installing
	}
	return &Error{CodeCommand, message, help}
}

const installing = "install Eigentime, and put the command on PATH or its path into the environment variable EIGENTIME"

// newTimeline finds the command eigentime for a timeline.
func newTimeline() (*Timeline, error) {
	binary, err := exec.LookPath(cmp.Or(os.Getenv("EIGENTIME"), "eigentime"))
	if err != nil {
		return nil, &Error{CodeCommand, fmt.Sprintf("the command eigentime is missing: %v", err), installing}
	}
	binary, err = filepath.Abs(binary)
	if strings.Contains(binary, "=") {
		// The command env would take it for a variable.
		return nil, &Error{CodeCommand, fmt.Sprintf("'%s': the path of the command eigentime has a '='", binary), "let the environment variable EIGENTIME name a link to it whose path has none"}
	}
	return &Timeline{binary: binary}, err
}
