package eigentime

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"time"
)

// Event is something that has happened on a timeline. Which fields it has depends on its kind; see "Events" in
// docs/guide/control.md. Ignore kinds that you do not know: later versions have more.
type Event struct {
	Kind    string        `json:"event"` // "joined", "ended", "changed", "skipped", "notice", "lost", "removed", "moved"
	PID     int           // of "joined", "ended" and "notice"
	Command string        // of "joined"
	State   string        // of "changed"
	Rate    float64       // of "changed"
	Span    time.Duration `json:"span_ns"` // of "skipped"
	Text    string        // of "notice"
	Count   int           // of "lost"
	Host    Instant       `json:"host_ns"`    // when it happened, by the host's wall clock
	Virtual Instant       `json:"virtual_ns"` // and by that of the timeline
}

// Instant is a [time.Time], in JSON as nanoseconds since 1970.
type Instant struct{ time.Time }

// UnmarshalJSON implements [json.Unmarshaler].
func (instant *Instant) UnmarshalJSON(text []byte) error {
	var nanoseconds int64
	err := json.Unmarshal(text, &nanoseconds)
	instant.Time = time.Unix(0, nanoseconds)
	return err
}

// Watch yields the events from now on, once, until the timeline ends, ctx is done, or the loop is left. An
// error is the last that is yielded. Events that happen before the loop begins are kept for it.
func (timeline *Timeline) Watch(ctx context.Context) (iter.Seq2[Event, error], error) {
	connection, hangUp, err := timeline.begin(ctx, "watch", nil)
	if err != nil {
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
				err = timeline.wrap("watch", err)
			}
			if !yield(event, err) || err != nil {
				return
			}
		}
	}, nil
}
