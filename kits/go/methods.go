package eigentime

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"maps"
	"time"
)

// Info describes a timeline.
type Info struct {
	Name       string
	Protocol   int
	Version    string
	Supervisor int // the process ID of its supervisor
	// How programs join, and how containers do: annotations or environment variables.
	Join struct {
		Command     []string
		Annotations map[string]string
		Environment map[string]string
	}
}

// State holds the clocks of a timeline and its members.
type State struct {
	Name       string
	State      string  // "running", "frozen" or "wall frozen"
	Rate       float64 // virtual seconds per host second, even while frozen
	Joinable   bool
	SettableBy string `json:"settable_by"`
	Members    []Member
	// The complete answer, as described in docs/guide/timelines.md.
	JSON json.RawMessage `json:"-"`
}

// Member is a process on a timeline.
type Member struct {
	PID     int
	Command string
	Threads []Thread
}

// Thread is a thread of a member. Call is the system call in which it waits, or "" if it runs.
type Thread struct {
	TID  int
	Call string
}

// Info returns what the timeline is and how to join it.
func (timeline *Timeline) Info() (info Info, err error) {
	err = timeline.call("info", nil, &info)
	return info, err
}

// Show returns the clocks and the members.
func (timeline *Timeline) Show() (state State, err error) {
	if err = timeline.call("show", nil, &state.JSON); err == nil {
		err = json.Unmarshal(state.JSON, &state)
	}
	return state, err
}

// Now returns the time on the timeline's wall clock.
func (timeline *Timeline) Now() (time.Time, error) {
	answer, err := timeline.exchange("info", nil)
	return answer.Virtual.Time, err
}

// Set changes the rate, and the date or the offset.
func (timeline *Timeline) Set(settings ...Setting) error {
	changes := params{}
	for _, setting := range settings {
		changes[setting.name] = setting.value
	}
	return timeline.call("set", changes, nil)
}

// Leap moves all clocks forward by span at once. Waits that expire within it end.
func (timeline *Timeline) Leap(span time.Duration) error {
	return timeline.call("leap", params{"span": spanOf(span)}, nil)
}

// Freeze stops all clocks.
func (timeline *Timeline) Freeze() error { return timeline.call("freeze", nil, nil) }

// FreezeWall stops the wall clock alone.
func (timeline *Timeline) FreezeWall() error {
	return timeline.call("freeze", params{"wall": true}, nil)
}

// Thaw restarts the clocks.
func (timeline *Timeline) Thaw() error { return timeline.call("thaw", nil, nil) }

// Save returns the state that [Continue] resumes from: all clocks at one moment, and the rate.
func (timeline *Timeline) Save() (saved json.RawMessage, err error) {
	err = timeline.call("save", nil, &saved)
	return saved, err
}

// Skip allows leaps over idle time, up to limit, on a timeline made with [SkipIdle] or [SkipWhenTold]. It does not
// wait for them: [Timeline.Wait] for [Skipped] does.
func (timeline *Timeline) Skip(limit Limit) error { return timeline.call("skip", limit.limit(), nil) }

// Wait waits until the condition holds; [Ended] also holds if the timeline has already ended. If the deadline of ctx,
// measured on the test's clock, passes first, the error is an [*Error] with [CodeTimeout] that says why the
// condition does not hold.
func (timeline *Timeline) Wait(ctx context.Context, condition Condition) error {
	request := maps.Clone(condition.condition())
	if deadline, limited := ctx.Deadline(); limited {
		request["timeout"] = max(time.Until(deadline), 0).Nanoseconds()
	}
	_, hangUp, err := timeline.begin(ctx, "wait", request)
	if err == nil {
		hangUp()
	}
	if request["ended"] == true && errors.Is(err, errEnded) {
		return nil
	}
	return err
}

// Event is something that has happened on a timeline. Which fields are set depends on its kind; see "Events" in
// docs/guide/control.md. Ignore unknown kinds: later versions have more.
type Event struct {
	Kind    string        `json:"event"` // "joined", "ended", "changed", "skipped", "notice", "lost", "removed", "moved"
	PID     int           // of "joined", "ended" and "notice"
	Command string        // of "joined"
	State   string        // of "changed"
	Rate    float64       // of "changed"
	Span    time.Duration `json:"span_ns"` // of "skipped"
	Text    string        // of "notice"
	Count   int           // of "lost"
	Host    Instant       `json:"host_ns"`    // when it happened, on the host's wall clock
	Virtual Instant       `json:"virtual_ns"` // and on the timeline's
}

// Instant is a [time.Time] that JSON represents as nanoseconds since 1970.
type Instant struct{ time.Time }

// UnmarshalJSON implements [json.Unmarshaler].
func (instant *Instant) UnmarshalJSON(text []byte) error {
	var nanoseconds int64
	err := json.Unmarshal(text, &nanoseconds)
	instant.Time = time.Unix(0, nanoseconds)
	return err
}

// Watch yields the events from now on, once, until the timeline ends, ctx is done, or the loop is left. An
// error is the last value yielded. Events that happen before the loop begins are kept for it.
func (timeline *Timeline) Watch(ctx context.Context) (iter.Seq2[Event, error], error) {
	connection, hangUp, err := timeline.begin(ctx, "watch", nil)
	if err != nil {
		return nil, err
	}
	return func(yield func(Event, error) bool) {
		defer hangUp()
		for {
			var event Event
			err := connection.lines.Decode(&event)
			switch {
			case ctx.Err() != nil:
				err = ctx.Err()
			case errors.Is(err, io.EOF):
				return
			case err != nil:
				err = timeline.wrap("watch", err)
			}
			if !yield(event, err) || err != nil {
				return
			}
		}
	}, nil
}
