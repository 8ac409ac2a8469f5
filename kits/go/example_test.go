package eigentime_test

import (
	"bufio"
	"context"
	"fmt"
	"log"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"eigentime"
)

// The example in README.md; a test checks that they match.
func TestTokenExpires(t *testing.T) {
	tl := eigentime.New(t, eigentime.Date("2038-01-19"))
	valid := func() bool {
		token := tl.Command("sh", "-c", `test "$(date +%s)" -lt "$(date -d 2038-02-18 +%s)"`)
		return token.Run() == nil
	}
	if !valid() {
		t.Error("the token is not valid at first")
	}
	tl.Leap(30 * 24 * time.Hour)
	if valid() {
		t.Error("the token is still valid after 30 days")
	}
}

func Example() {
	ctx := context.Background()
	tl, err := eigentime.Create(ctx, eigentime.Date("2038-01-19T00:00:00Z"))
	if err != nil {
		log.Fatal(err)
	}
	defer tl.Close()
	if err := tl.Leap(30 * 24 * time.Hour); err != nil {
		log.Fatal(err)
	}
	date, err := tl.Command("date", "-u", "+%F").Output()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s", date)
	// Output: 2038-02-18
}

// A server that prints a line when it starts a job; the next job is due in ten days.
func ExampleTimeline_Wait() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	tl, err := eigentime.Create(ctx, eigentime.Date("2038-01-19T00:00:00Z"))
	if err != nil {
		log.Fatal(err)
	}
	defer tl.Close()
	server := tl.Command("sh", "-c", "sleep 10d; date -u +%F")
	jobs, err := startReading(server)
	if err != nil {
		log.Fatal(err)
	}
	if err := tl.Wait(ctx, eigentime.BlockedIn(0, "clock_nanosleep")); err != nil {
		log.Fatal(err)
	}
	if err := tl.Leap(10 * 24 * time.Hour); err != nil {
		log.Fatal(err)
	}
	jobs.Scan()
	fmt.Println(jobs.Text())
	if err := server.Wait(); err != nil {
		log.Fatal(err)
	}
	// Output: 2038-01-29
}

// startReading starts a command and returns a reader of its output lines.
func startReading(command *exec.Cmd) (*bufio.Scanner, error) {
	printed, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return bufio.NewScanner(printed), command.Start()
}

func TestTheExampleOfTheReadme(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	must(t, err)
	source, err := os.ReadFile("example_test.go")
	must(t, err)
	_, rest, _ := strings.Cut(string(readme), "```go\n")
	example, _, found := strings.Cut(rest, "```\n")
	if !found || !strings.Contains(string(source), "\n"+example) {
		t.Error("the first example of README.md is not in example_test.go")
	}
}
