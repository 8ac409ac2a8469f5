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

// Timeline is a timeline of Eigentime. Its methods may be called by several goroutines at a time.
type Timeline struct {
	name    string
	binary  string
	socket  string
	runtime string // EIGENTIME_RUNTIME_DIR of its programs, or "" where they find it without: /tmp/eigentime-UID

	holder *exec.Cmd // removes the timeline when its standard input ends, or nil if this process did not make it
	held   io.Closer // that input
	ending sync.Once
}

// Create makes a timeline. Without [Name] and [Joinable], no other program finds it. It ends by Close, or with this
// process, however that ends.
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

// Open finds an existing timeline of the user by its name, such as the timeline of a container.
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

// Name is its name, by which `eigentime ctl` and containers find it, unless it is private.
func (timeline *Timeline) Name() string { return timeline.name }

// Command is a command that runs on the timeline; otherwise it is as made by [exec.Command]. The program is
// looked for when the command runs: if it is missing, the command ends with status 127. If the timeline has ended,
// starting the command fails.
//
// A command that has been started joins the timeline a moment later. [Timeline.Wait] for [Joined] with its
// Process.Pid waits for that, before a leap or a wait for [Empty], for instance.
func (timeline *Timeline) Command(name string, arguments ...string) *exec.Cmd {
	return timeline.CommandContext(context.Background(), name, arguments...)
}

// CommandContext is Command with a context: when ctx is done, the program is killed. Its deadline is one of
// the test's clock and not of the timeline's.
func (timeline *Timeline) CommandContext(ctx context.Context, name string, arguments ...string) *exec.Cmd {
	// Not in the command's Env, since callers replace that: the command would not find the timeline then. If it is
	// empty, the variable counts as missing.
	words := []string{"EIGENTIME_RUNTIME_DIR=" + timeline.runtime, timeline.binary, "run", "--timeline", timeline.name, "--existing", "--", name}
	command := exec.CommandContext(ctx, "env", append(words, arguments...)...)
	if _, err := os.Stat(timeline.socket); err != nil {
		command.Err = timeline.wrap("joining", err)
	}
	return command
}

// Close ends the timeline and its members. It is no error if the timeline has ended before.
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

// make runs the command that makes the timeline, and goes on from what is saved, if anything is.
func (timeline *Timeline) make(ctx context.Context, words []string, saved []byte) error {
	var complaints strings.Builder
	command := exec.Command(timeline.binary, words...)
	command.Stderr = &complaints
	// Ctrl-C is for the process that has started it.
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	input, inputError := command.StdinPipe()
	output, outputError := command.StdoutPipe()
	if err := errors.Join(inputError, outputError, command.Start()); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { input.Close() })()
	// An empty line ends a document that is cut short. If this fails, the command says why.
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

// found takes what the command tells of the timeline. Otherwise, the error has its message: that, help or a tip, and
// how it is used, which is left out.
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
		// The command env takes it for a variable.
		return nil, &Error{CodeCommand, fmt.Sprintf("'%s': the path of the command eigentime has a '='", binary), "let the environment variable EIGENTIME name a link to it whose path has none"}
	}
	return &Timeline{binary: binary}, err
}
