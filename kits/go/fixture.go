package eigentime

import (
	"context"
	"testing"
	"time"
)

// Fixture is a timeline that belongs to a test. Its methods fail the test instead of returning an error; like
// [testing.TB.FailNow], they must be called from the test's own goroutine. The methods of its Timeline, including
// promoted ones such as Watch, return errors.
type Fixture struct {
	*Timeline
	test testing.TB
}

// New makes a timeline for a test, as [Create] does. It ends, with its programs, when the test ends.
func New(test testing.TB, options ...Option) *Fixture {
	test.Helper()
	timeline, err := Create(context.Background(), options...)
	if err != nil {
		test.Fatal(err)
	}
	test.Cleanup(func() {
		if err := timeline.Close(); err != nil {
			test.Error(err)
		}
	})
	return &Fixture{timeline, test}
}

func (fixture *Fixture) check(err error) {
	fixture.test.Helper()
	if err != nil {
		fixture.test.Fatal(err)
	}
}

// Show is [Timeline.Show].
func (fixture *Fixture) Show() State {
	fixture.test.Helper()
	state, err := fixture.Timeline.Show()
	fixture.check(err)
	return state
}

// Now is [Timeline.Now].
func (fixture *Fixture) Now() time.Time {
	fixture.test.Helper()
	now, err := fixture.Timeline.Now()
	fixture.check(err)
	return now
}

// Set is [Timeline.Set].
func (fixture *Fixture) Set(settings ...Setting) {
	fixture.test.Helper()
	fixture.check(fixture.Timeline.Set(settings...))
}

// Leap is [Timeline.Leap].
func (fixture *Fixture) Leap(span time.Duration) {
	fixture.test.Helper()
	fixture.check(fixture.Timeline.Leap(span))
}

// Freeze is [Timeline.Freeze].
func (fixture *Fixture) Freeze() {
	fixture.test.Helper()
	fixture.check(fixture.Timeline.Freeze())
}

// FreezeWall is [Timeline.FreezeWall].
func (fixture *Fixture) FreezeWall() {
	fixture.test.Helper()
	fixture.check(fixture.Timeline.FreezeWall())
}

// Thaw is [Timeline.Thaw].
func (fixture *Fixture) Thaw() {
	fixture.test.Helper()
	fixture.check(fixture.Timeline.Thaw())
}

// Skip is [Timeline.Skip].
func (fixture *Fixture) Skip(limit Limit) {
	fixture.test.Helper()
	fixture.check(fixture.Timeline.Skip(limit))
}

// Wait is [Timeline.Wait].
func (fixture *Fixture) Wait(ctx context.Context, condition Condition) {
	fixture.test.Helper()
	fixture.check(fixture.Timeline.Wait(ctx, condition))
}
