package eigentime_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"eigentime"
)

// How long a wait may take on a busy machine before the test fails.
const patience = 2 * time.Minute

var start = time.Date(2038, 1, 19, 0, 0, 0, 0, time.UTC)

func patient(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// output runs a command and returns what it prints.
func output(t *testing.T, command *exec.Cmd) string {
	t.Helper()
	text, err := command.Output()
	if err != nil {
		t.Fatalf("%v: %v", command, err)
	}
	return strings.TrimSpace(string(text))
}

// between fails unless instant lies within the hour after earliest.
func between(t *testing.T, instant, earliest time.Time) {
	t.Helper()
	if instant.Before(earliest) || instant.After(earliest.Add(time.Hour)) {
		t.Errorf("it is %v, and not within the hour after %v", instant.UTC(), earliest)
	}
}

func code(t *testing.T, err error, expected string) *eigentime.Error {
	t.Helper()
	var refusal *eigentime.Error
	if !errors.As(err, &refusal) {
		t.Fatalf("%v is no *eigentime.Error", err)
	}
	if refusal.Code != expected {
		t.Fatalf("the code is %s, and not %s: %v", refusal.Code, expected, err)
	}
	return refusal
}

func TestProgramsSeeTheDate(t *testing.T) {
	t.Parallel()
	tl := eigentime.New(t, eigentime.At(start))
	if date := output(t, tl.Command("date", "-u", "+%F")); date != "2038-01-19" {
		t.Errorf("date prints %s", date)
	}
	between(t, tl.Now(), start)
}

func TestAllOptionsOfTheStart(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for name, try := range map[string]struct {
		options  []eigentime.Option
		earliest time.Time
		state    string
		rate     float64
	}{
		"date":      {[]eigentime.Option{eigentime.Date("2038-01-19T00:00:00Z")}, start, "running", 1},
		"offset":    {[]eigentime.Option{eigentime.Offset(48 * time.Hour)}, now.Add(48 * time.Hour), "running", 1},
		"back":      {[]eigentime.Option{eigentime.Offset(-48 * time.Hour)}, now.Add(-48 * time.Hour), "running", 1},
		"rate":      {[]eigentime.Option{eigentime.At(start), eigentime.Rate(2.5)}, start, "running", 2.5},
		"frozen":    {[]eigentime.Option{eigentime.At(start), eigentime.Frozen()}, start, "frozen", 1},
		"arguments": {[]eigentime.Option{eigentime.At(start), eigentime.Arguments("--freeze=wall")}, start, "wall frozen", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tl := eigentime.New(t, try.options...)
			between(t, tl.Now(), try.earliest)
			if state := tl.Show(); state.State != try.state || state.Rate != try.rate {
				t.Errorf("it is %s at rate %v", state.State, state.Rate)
			}
		})
	}
}

func TestALeapEndsASleep(t *testing.T) {
	t.Parallel()
	tl := eigentime.New(t, eigentime.At(start))
	// Not longer: GNU sleep splits sleeps of more than 24 days into several waits.
	sleeper := tl.Command("sleep", "20d")
	must(t, sleeper.Start())
	tl.Wait(patient(t), eigentime.BlockedIn(0, "clock_nanosleep"))
	if members := tl.Show().Members; len(members) != 1 || members[0].Command != "sleep 20d" ||
		members[0].Threads[0].Call != "clock_nanosleep" {
		t.Errorf("the members are %v", members)
	}
	tl.Leap(20 * 24 * time.Hour)
	must(t, sleeper.Wait())
	tl.Wait(patient(t), eigentime.Empty())
	between(t, tl.Now(), start.Add(20*24*time.Hour))
}

func TestTheClocksAreSetAndStopped(t *testing.T) {
	t.Parallel()
	tl := eigentime.New(t)
	later := time.Date(2040, 2, 29, 12, 0, 0, 123456789, time.UTC)
	tl.Freeze()
	tl.Set(eigentime.At(later), eigentime.Rate(0.25))
	if now := tl.Now(); !now.Equal(later) {
		t.Errorf("the frozen clock shows %v", now.UTC())
	}
	if state := tl.Show(); state.State != "frozen" || state.Rate != 0.25 {
		t.Errorf("it is %s at rate %v", state.State, state.Rate)
	}
	tl.Thaw()
	tl.FreezeWall()
	if state := tl.Show().State; state != "wall frozen" {
		t.Errorf("it is %s", state)
	}
	tl.Thaw()
	tl.Set(eigentime.Offset(0))
	between(t, tl.Now(), time.Now().Add(-time.Minute))
}

func TestASavedTimelineContinues(t *testing.T) {
	t.Parallel()
	first := eigentime.New(t, eigentime.At(start), eigentime.Frozen())
	first.Leap(time.Hour)
	saved, err := first.Save()
	must(t, err)
	second := eigentime.New(t, eigentime.Continue(saved))
	if now := second.Now(); !now.Equal(first.Now()) {
		t.Errorf("it continues at %v", now.UTC())
	}
}

func TestWaitUntilAnInstant(t *testing.T) {
	t.Parallel()
	tl := eigentime.New(t, eigentime.At(start), eigentime.Rate(1000))
	tl.Wait(patient(t), eigentime.Until(start.Add(time.Minute)))
	if now := tl.Now(); now.Before(start.Add(time.Minute)) {
		t.Errorf("it is only %v", now.UTC())
	}
	before := tl.Now()
	tl.Wait(patient(t), eigentime.For(time.Minute))
	if passed := tl.Now().Sub(before); passed < time.Minute {
		t.Errorf("only %v have passed", passed)
	}
}

func TestAWaitThatTakesTooLongSaysWhy(t *testing.T) {
	t.Parallel()
	tl := eigentime.New(t)
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	err := tl.Timeline.Wait(ctx, eigentime.BlockedIn(0, "accept4"))
	if !strings.Contains(code(t, err, eigentime.CodeTimeout).Message, "no such thread") {
		t.Errorf("it says: %v", err)
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v is not context.DeadlineExceeded", err)
	}
}

func TestAWaitCanBeCancelled(t *testing.T) {
	t.Parallel()
	tl := eigentime.New(t)
	ctx, cancel := context.WithCancel(context.Background())
	waited := make(chan error)
	go func() { waited <- tl.Timeline.Wait(ctx, eigentime.Ended()) }()
	cancel()
	if err := <-waited; !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
}

func TestAnEndIsLearnt(t *testing.T) {
	t.Parallel()
	tl := eigentime.New(t)
	events, err := tl.Watch(patient(t))
	must(t, err)
	must(t, tl.Close())
	kinds := ""
	for event, err := range events {
		must(t, err)
		kinds += event.Kind
	}
	if kinds != "removed" {
		t.Errorf("the events are %s", kinds)
	}
}

func TestAnUnreadWatchEndsWithItsContext(t *testing.T) {
	t.Parallel()
	tl := eigentime.New(t)
	ctx, cancel := context.WithCancel(context.Background())
	events, err := tl.Watch(ctx)
	must(t, err)
	cancel()
	for _, err := range events {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("the error is %v", err)
		}
	}
}

func TestAStartedCommandHasJoined(t *testing.T) {
	t.Parallel()
	tl := eigentime.New(t)
	for range 5 {
		command := tl.Command("sleep", "1000d")
		must(t, command.Start())
		tl.Wait(patient(t), eigentime.Joined(command.Process.Pid))
		joined := func(member eigentime.Member) bool { return member.PID == command.Process.Pid }
		if members := tl.Show().Members; !slices.ContainsFunc(members, joined) {
			t.Errorf("process %d is none of %v", command.Process.Pid, members)
		}
	}
}

func TestIdleTimeIsSkippedWhenTold(t *testing.T) {
	t.Parallel()
	tl := eigentime.New(t, eigentime.At(start), eigentime.SkipWhenTold())
	sleeper := tl.Command("sh", "-c", "sleep 1d; sleep 1d; sleep 1000d")
	must(t, sleeper.Start())
	tl.Wait(patient(t), eigentime.BlockedIn(0, "clock_nanosleep"))
	tl.Skip(eigentime.Times(2))
	tl.Wait(patient(t), eigentime.Skipped())
	between(t, tl.Now(), start.Add(48*time.Hour))
	tl.Skip(eigentime.For(24 * time.Hour))
	tl.Wait(patient(t), eigentime.Skipped())
	between(t, tl.Now(), start.Add(72*time.Hour))
	tl.Skip(eigentime.Until(start.Add(100 * 24 * time.Hour)))
	tl.Wait(patient(t), eigentime.Skipped())
	between(t, tl.Now(), start.Add(100*24*time.Hour))
	tl.Skip(eigentime.All())
	must(t, sleeper.Wait())
}

func TestIdle(t *testing.T) {
	t.Parallel()
	tl := eigentime.New(t)
	command := tl.Command("cat")
	input, err := command.StdinPipe()
	must(t, err)
	must(t, command.Start())
	tl.Wait(patient(t), eigentime.BlockedIn(0, "read"))
	tl.Wait(patient(t), eigentime.Idle())
	must(t, input.Close())
	must(t, command.Wait())
}

func TestEvents(t *testing.T) {
	t.Parallel()
	tl := eigentime.New(t, eigentime.At(start))
	events, err := tl.Watch(patient(t))
	must(t, err)
	must(t, tl.Command("true").Run())
	tl.Set(eigentime.Rate(2))
	joined, ended := 0, 0
	for event, err := range events {
		must(t, err)
		between(t, event.Virtual.Time, start)
		switch event.Kind {
		case "joined":
			if joined = event.PID; event.Command != "true" {
				t.Errorf("%s has joined", event.Command)
			}
		case "ended":
			ended = event.PID
		case "changed":
			if event.Rate != 2 || event.State != "running" {
				t.Errorf("it is %s at rate %v", event.State, event.Rate)
			}
			if joined == 0 || joined != ended {
				t.Errorf("process %d has joined, and process %d has ended", joined, ended)
			}
			return
		}
	}
	t.Error("there are no more events")
}

func TestErrorsHaveACodeAndHelp(t *testing.T) {
	t.Parallel()
	tl := eigentime.New(t)
	if err := code(t, tl.Timeline.Set(eigentime.Date("soon")), eigentime.CodeInvalidParams); err.Help == "" {
		t.Errorf("there is no help: %v", err)
	}
	code(t, tl.Timeline.Skip(eigentime.All()), eigentime.CodeRefused)
	_, err := eigentime.Create(context.Background(), eigentime.Date("soon"))
	if err := code(t, err, eigentime.CodeCommand); !strings.HasPrefix(err.Message, "invalid value 'soon'") || strings.Contains(err.Help, "--help") || err.Help == "" {
		t.Errorf("it says: %v", err)
	}
	_, err = eigentime.Create(context.Background(), eigentime.Arguments("--no-such-option"))
	if err := code(t, err, eigentime.CodeCommand); err.Message != "unexpected argument '--no-such-option' found" {
		t.Errorf("it says: %v", err)
	}
	_, err = eigentime.Create(context.Background(), eigentime.Arguments("--skipidle"))
	if err := code(t, err, eigentime.CodeCommand); !strings.Contains(err.Help, "'--skip-idle'") {
		t.Errorf("it says: %v", err)
	}
	_, err = eigentime.Create(context.Background(), eigentime.Name("--help"))
	if err := code(t, err, eigentime.CodeCommand); !strings.HasPrefix(err.Message, "invalid value '--help'") {
		t.Errorf("it says: %v", err)
	}
	_, err = eigentime.Open("--help")
	if err := code(t, err, eigentime.CodeCommand); !strings.HasPrefix(err.Message, "invalid value '--help'") {
		t.Errorf("it says: %v", err)
	}
	for _, wrong := range []eigentime.Setting{
		eigentime.Rate(0),
		eigentime.Rate(math.NaN()),
		eigentime.At(time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)),
	} {
		if err := code(t, tl.Timeline.Set(wrong), eigentime.CodeInvalidParams); err.Help == "" {
			t.Errorf("there is no help: %v", err)
		}
	}
	tl.Freeze()
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	err = tl.Timeline.Wait(ctx, eigentime.For(time.Hour))
	if err := code(t, err, eigentime.CodeTimeout); !strings.Contains(err.Help, "thaw") {
		t.Errorf("it says: %v", err)
	}
	_, err = eigentime.Create(context.Background(), eigentime.Continue([]byte(`{"cut": "short`)))
	if err := code(t, err, eigentime.CodeCommand); !strings.HasPrefix(err.Message, "cannot continue") {
		t.Errorf("it says: %v", err)
	}
	_, err = eigentime.Open("no-such-timeline")
	if err == nil || !strings.Contains(err.Error(), "no-such-timeline") {
		t.Errorf("the error is %v", err)
	}
}

func TestAMissingCommandSaysHowToInstallIt(t *testing.T) {
	t.Setenv("EIGENTIME", "/nonexistent/eigentime")
	_, err := eigentime.Create(context.Background())
	if err := code(t, err, eigentime.CodeCommand); !strings.Contains(err.Help, "EIGENTIME") {
		t.Errorf("it says: %v", err)
	}
}

// The command env would take it for a variable.
func TestACommandWhosePathLooksLikeAVariableIsNamed(t *testing.T) {
	odd := filepath.Join(t.TempDir(), "a=b")
	must(t, os.Symlink(os.Getenv("EIGENTIME"), odd))
	t.Setenv("EIGENTIME", odd)
	_, created := eigentime.Create(context.Background())
	_, opened := eigentime.Open("x")
	for _, err := range []error{created, opened} {
		err := code(t, err, eigentime.CodeCommand)
		if !strings.Contains(err.Message, odd) || !strings.Contains(err.Help, "EIGENTIME") {
			t.Errorf("it says: %v", err)
		}
	}
}

func TestAnotherCommandIsNamed(t *testing.T) {
	t.Setenv("EIGENTIME", "/bin/true")
	_, created := eigentime.Create(context.Background())
	_, opened := eigentime.Open("x")
	for _, err := range []error{created, opened} {
		err := code(t, err, eigentime.CodeCommand)
		if !strings.HasPrefix(err.Message, "'/bin/true' tells of no timeline") || !strings.Contains(err.Help, "EIGENTIME") {
			t.Errorf("it says: %v", err)
		}
	}
}

func TestATemporaryDirectoryThatIsMissing(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	t.Setenv("TMPDIR", missing)
	_, err := eigentime.Create(context.Background())
	if err := code(t, err, eigentime.CodeCommand); !strings.Contains(err.Message, missing) || !strings.Contains(err.Help, "TMPDIR") {
		t.Errorf("it says: %v", err)
	}
}

// failing is a test that records its failure.
type failing struct {
	testing.TB
	message string
}

func (*failing) Helper() {}

func (test *failing) Fatal(arguments ...any) {
	test.message = fmt.Sprint(arguments...)
	panic(test)
}

func TestAFixtureFailsItsTest(t *testing.T) {
	t.Parallel()
	test := &failing{TB: t}
	tl := eigentime.New(test)
	defer func() {
		if recover() != test || !strings.Contains(test.message, "soon") {
			t.Errorf("the test has not failed: %s", test.message)
		}
	}()
	tl.Set(eigentime.Date("soon"))
}

func TestTheEndTakesTheProgramsAlongAndLeavesNothing(t *testing.T) {
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	var sleeper *exec.Cmd
	t.Run("test", func(t *testing.T) {
		tl := eigentime.New(t)
		sleeper = tl.Command("sleep", "1000d")
		must(t, sleeper.Start())
		tl.Wait(patient(t), eigentime.BlockedIn(0, "clock_nanosleep"))
	})
	var exit *exec.ExitError
	if err := sleeper.Wait(); !errors.As(err, &exit) {
		t.Errorf("the program has ended so: %v", err)
	} else if status := exit.Sys().(syscall.WaitStatus); status.Signal() != syscall.SIGKILL && status.ExitStatus() != 137 {
		t.Errorf("the program has ended so: %v", err)
	}
	left, err := os.ReadDir(temporary)
	must(t, err)
	if len(left) != 0 {
		t.Errorf("these are left: %v", left)
	}
}

func TestATimelineIsClosedByAll(t *testing.T) {
	t.Parallel()
	tl, err := eigentime.Create(context.Background())
	must(t, err)
	var closing sync.WaitGroup
	for range 4 {
		closing.Add(1)
		go func() {
			defer closing.Done()
			if err := tl.Close(); err != nil {
				t.Errorf("closing fails: %v", err)
			}
		}()
	}
	closing.Wait()
	must(t, tl.Close())
	code(t, tl.Leap(time.Second), eigentime.CodeEnded)
	code(t, tl.Command("true").Run(), eigentime.CodeEnded)
	code(t, tl.Wait(context.Background(), eigentime.Empty()), eigentime.CodeEnded)
	must(t, tl.Wait(context.Background(), eigentime.Ended()))
}

// A socket path has at most 107 bytes.
func TestALongTemporaryDirectory(t *testing.T) {
	long := filepath.Join(t.TempDir(), strings.Repeat("long", 50))
	must(t, os.Mkdir(long, 0o700))
	t.Setenv("TMPDIR", long)
	tl := eigentime.New(t, eigentime.At(start))
	if date := output(t, tl.Command("date", "-u", "+%F")); date != "2038-01-19" {
		t.Errorf("date prints %s", date)
	}
}

func TestACommandWithAnotherEnvironment(t *testing.T) {
	t.Parallel()
	tl := eigentime.New(t, eigentime.At(start))
	command := tl.Command("sh", "-c", "date -u +%F; echo $WHO")
	command.Env = []string{"WHO=me", "PATH=" + os.Getenv("PATH")}
	if printed := output(t, command); printed != "2038-01-19\nme" {
		t.Errorf("it prints %s", printed)
	}
}

func TestACommandThatIsMissing(t *testing.T) {
	t.Parallel()
	var exit *exec.ExitError
	if err := eigentime.New(t).Command("no-such-program").Run(); !errors.As(err, &exit) || exit.ExitCode() != 127 {
		t.Errorf("the error is %v", err)
	}
}

func TestACommandEndsWithItsContext(t *testing.T) {
	t.Parallel()
	tl := eigentime.New(t)
	ctx, cancel := context.WithCancel(context.Background())
	command := tl.CommandContext(ctx, "sleep", "1000d")
	must(t, command.Start())
	tl.Wait(patient(t), eigentime.Blocked())
	cancel()
	if err := command.Wait(); err == nil {
		t.Error("it has slept for a thousand days")
	}
	tl.Wait(patient(t), eigentime.Empty())
}

func TestNamedTimelines(t *testing.T) {
	for name, variable := range map[string]string{"named": "EIGENTIME_RUNTIME_DIR", "of the session": "XDG_RUNTIME_DIR"} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("EIGENTIME_RUNTIME_DIR", "")
			t.Setenv(variable, t.TempDir())
			tl := eigentime.New(t, eigentime.Name("go-kit-shop"), eigentime.At(start), eigentime.Joinable())
			same, err := eigentime.Open("go-kit-shop")
			must(t, err)
			must(t, same.Leap(48*time.Hour))
			between(t, tl.Now(), start.Add(48*time.Hour))
			if date := output(t, same.Command("date", "-u", "+%F")); date != "2038-01-21" {
				t.Errorf("date prints %s", date)
			}
			// Neither another timeline of the same name nor none when the environment differs.
			command := tl.Command("sh", "-c", "date -u +%F; echo $XDG_RUNTIME_DIR")
			command.Env = []string{"PATH=" + os.Getenv("PATH"), "XDG_RUNTIME_DIR=/nonexistent"}
			if printed := output(t, command); printed != "2038-01-21\n/nonexistent" {
				t.Errorf("it prints %s", printed)
			}
			_, err = eigentime.Create(context.Background(), eigentime.Name("go-kit-shop"))
			code(t, err, eigentime.CodeCommand)
			info, err := tl.Info()
			must(t, err)
			if info.Join.Annotations["io.eigentime.timeline"] != tl.Name() || info.Protocol != 1 {
				t.Errorf("it says of itself: %v", info)
			}
			if !tl.Show().Joinable {
				t.Error("containers may not join it")
			}
			// A second one gets its own name.
			if other := eigentime.New(t, eigentime.Joinable()); other.Name() == tl.Name() {
				t.Errorf("two are called %s", tl.Name())
			}
		})
	}
}

func TestNothingIsLeftOfATestThatIsKilled(t *testing.T) {
	if os.Getenv("EIGENTIME_VICTIM") != "" {
		eigentime.New(t, eigentime.Name("victim"))
		fmt.Println("made")
		time.Sleep(time.Hour)
	}
	t.Setenv("EIGENTIME_RUNTIME_DIR", t.TempDir())
	t.Setenv("EIGENTIME_VICTIM", "1")
	victim := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$")
	printed, err := victim.StdoutPipe()
	must(t, err)
	must(t, victim.Start())
	bufio.NewScanner(printed).Scan()
	tl, err := eigentime.Open("victim")
	must(t, err)
	events, err := tl.Watch(patient(t))
	must(t, err)
	must(t, victim.Process.Kill())
	victim.Wait() // It reports that the process was killed.
	for _, err := range events {
		must(t, err)
	}
}

func TestManyTimelinesAndManyCallers(t *testing.T) {
	t.Parallel()
	for hour := range 8 {
		t.Run(fmt.Sprint(hour), func(t *testing.T) {
			t.Parallel()
			tl := eigentime.New(t, eigentime.At(start.Add(time.Duration(hour)*24*time.Hour)), eigentime.Frozen())
			var callers sync.WaitGroup
			for range 20 {
				callers.Add(1)
				go func() {
					defer callers.Done()
					if err := tl.Timeline.Leap(time.Minute); err != nil {
						t.Error(err)
					}
				}()
			}
			callers.Wait()
			if passed := tl.Now().Sub(start); passed != time.Duration(hour)*24*time.Hour+20*time.Minute {
				t.Errorf("%v have passed", passed)
			}
		})
	}
}

func TestAnotherSupervisorTakesOver(t *testing.T) {
	t.Setenv("EIGENTIME_RUNTIME_DIR", t.TempDir())
	tl := eigentime.New(t, eigentime.Name("kept"), eigentime.At(start), eigentime.Arguments("--keep-running"))
	before := tl.Show()
	must(t, exec.Command(os.Getenv("EIGENTIME"), "ctl", "adopt", "kept").Run())
	tl.Leap(24 * time.Hour)
	between(t, tl.Now(), start.Add(24*time.Hour))
	var pids [2]struct{ Supervisor int }
	for index, state := range []eigentime.State{before, tl.Show()} {
		must(t, json.Unmarshal(state.JSON, &pids[index]))
	}
	if pids[0] == pids[1] {
		t.Errorf("process %d is still the supervisor", pids[0].Supervisor)
	}
}

func TestAServerIsReady(t *testing.T) {
	t.Parallel()
	tl := eigentime.New(t, eigentime.At(start))
	command := tl.Command("sh", "-c", "read line; date -u +%F; read line; date -u +%F")
	input, err := command.StdinPipe()
	must(t, err)
	printed, err := command.StdoutPipe()
	must(t, err)
	must(t, command.Start())
	lines := bufio.NewScanner(printed)
	for _, expected := range []string{"2038-01-19", "2038-02-18"} {
		fmt.Fprintln(input)
		if lines.Scan(); lines.Text() != expected {
			t.Errorf("date prints %s, and not %s", lines.Text(), expected)
		}
		tl.Leap(30 * 24 * time.Hour)
	}
	must(t, command.Wait())
}

// BenchmarkNew measures set-up and tear-down of a fixture.
func BenchmarkNew(b *testing.B) {
	for range b.N {
		tl, err := eigentime.Create(context.Background(), eigentime.At(start))
		if err != nil {
			b.Fatal(err)
		}
		if err := tl.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
