package eigentime

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"
)

// Event is something that has happened on a timeline. Which fields it has depends on its kind; see "Events" in
// docs/guide/control.md. Ignore kinds that you do not know: later versions have more.
type Event struct {
	Kind    string        // "joined", "ended", "changed", "skipped", "notice", "lost", "removed", "moved"
	PID     int           // of "joined", "ended" and "notice"
	Command string        // of "joined"
	State   string        // of "changed"
	Rate    float64       // of "changed"
	Span    time.Duration // of "skipped"
	Text    string        // of "notice"
	Count   int           // of "lost"
	Host    time.Time     // when it happened, by the host's wall clock
	Virtual time.Time     // and by that of the timeline
}

// UnmarshalJSON reads an event of the protocol.
func (event *Event) UnmarshalJSON(text []byte) error {
	var line struct {
		Event, Command, State, Text string
		PID, Count                  int
		Rate                        float64
		SpanNs                      int64 `json:"span_ns"`
		HostNs                      int64 `json:"host_ns"`
		VirtualNs                   int64 `json:"virtual_ns"`
	}
	if err := json.Unmarshal(text, &line); err != nil {
		return err
	}
	*event = Event{
		line.Event, line.PID, line.Command, line.State, line.Rate, time.Duration(line.SpanNs), line.Text, line.Count,
		time.Unix(0, line.HostNs), time.Unix(0, line.VirtualNs),
	}
	return nil
}

// Watch yields the events from now on, once, until the timeline ends, ctx is done, or the loop is left. An
// error is the last that is yielded. Events that happen before the loop begins are kept for it.
func (timeline *Timeline) Watch(ctx context.Context) (iter.Seq2[Event, error], error) {
	connection, hangUp, err := timeline.begin(ctx, "watch", nil)
	if err != nil {
		if hangUp != nil {
			hangUp()
		}
		return nil, err
	}
	return func(yield func(Event, error) bool) {
		defer hangUp()
		for {
			var event Event
			err := connection.read(&event)
			switch {
			case ctx.Err() != nil:
				err = ctx.Err()
			case errors.Is(err, io.EOF):
				return
			case err != nil:
				err = fmt.Errorf("eigentime: timeline '%s': watch: %w", timeline.name, err)
			}
			if !yield(event, err) || err != nil {
				return
			}
		}
	}, nil
}
