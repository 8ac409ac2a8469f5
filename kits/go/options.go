package eigentime

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"
)

// Option configures how [New] and [Create] make a timeline. A [Setting] is also an Option.
type Option interface{ create(*creation) }

// creation collects what is needed to make a timeline.
type creation struct {
	name      string
	saved     []byte
	arguments []string // of `eigentime ctl create`
}

type optionFunc func(*creation)

func (option optionFunc) create(creation *creation) { option(creation) }

// Name gives the timeline a name under which `eigentime ctl`, other programs and containers find it. Without it,
// a timeline has its own runtime directory, so that parallel tests never meet.
func Name(name string) Option {
	return optionFunc(func(creation *creation) { creation.name = name })
}

// Joinable lets containers join the timeline. Their engine then finds it under the given name, or else under a
// unique one.
func Joinable() Option { return Arguments("--joinable") }

// Continue resumes a timeline saved with [Timeline.Save].
func Continue(saved json.RawMessage) Option {
	return optionFunc(func(creation *creation) {
		creation.saved = saved
		creation.arguments = append(creation.arguments, "--continue", "-")
	})
}

// SkipIdle lets the clocks leap to the next deadline whenever all programs of the timeline wait.
func SkipIdle() Option { return Arguments("--skip-idle") }

// SkipWhenTold is like SkipIdle, but the clocks leap only when [Timeline.Skip] allows it.
func SkipWhenTold() Option { return Arguments("--skip-idle", "--skips", "0") }

// Frozen makes a timeline whose clocks are frozen until [Timeline.Thaw].
func Frozen() Option { return Arguments("--freeze") }

// Arguments passes further options to `eigentime ctl create`, as on the command line.
func Arguments(arguments ...string) Option {
	return optionFunc(func(creation *creation) {
		creation.arguments = append(creation.arguments, arguments...)
	})
}

// Setting is a property of a timeline that [Timeline.Set] can change later.
type Setting struct {
	name string
	// As in the protocol; the command line takes it as text.
	value any
}

func (setting Setting) create(creation *creation) {
	creation.arguments = append(creation.arguments, fmt.Sprintf("--%s=%v", setting.name, setting.value))
}

// Date sets the date that the wall clock shows, as text: "2038-01-19" or "2038-01-19T03:14:07Z". A date
// without a zone is in local time.
func Date(date string) Setting { return Setting{"date", date} }

// At sets the instant that the wall clock shows.
func At(instant time.Time) Setting { return Setting{"date", dateOf(instant)} }

// Offset sets how far the wall clock is ahead of the host's.
func Offset(offset time.Duration) Setting { return Setting{"offset", spanOf(offset)} }

// Rate sets how many seconds pass per host second.
func Rate(rate float64) Setting { return Setting{"rate", strconv.FormatFloat(rate, 'f', -1, 64)} }

func dateOf(instant time.Time) string { return instant.UTC().Format(time.RFC3339Nano) }

// spanOf returns an exact form that both the command line and the protocol accept.
func spanOf(span time.Duration) string { return fmt.Sprintf("%+dns", span.Nanoseconds()) }

// Limit determines which leaps over idle time [Timeline.Skip] allows: [All], [Times], [For] or [Until].
type Limit interface{ limit() params }

// Condition is what [Timeline.Wait] waits for: [For], [Until], [Idle], [Blocked], [BlockedIn], [Joined],
// [Skipped], [Empty] or [Ended].
type Condition interface{ condition() params }

type limit params

func (limit limit) limit() params { return params(limit) }

type condition params

func (condition condition) condition() params { return params(condition) }

// Moment is an instant or a span of virtual time; it is both a [Limit] and a [Condition].
type Moment struct{ params params }

func (moment Moment) limit() params     { return moment.params }
func (moment Moment) condition() params { return moment.params }

// For is a span of virtual time, starting now.
func For(span time.Duration) Moment { return Moment{params{"for": spanOf(span)}} }

// Until is the moment when the wall clock shows instant or later.
func Until(instant time.Time) Moment { return Moment{params{"until": dateOf(instant)}} }

// All allows all leaps from now on.
func All() Limit { return limit{} }

// Times allows a number of leaps.
func Times(times uint) Limit { return limit{"times": times} }

// Idle holds when all threads of all members wait, for instance once a server has started.
func Idle() Condition { return condition{"idle": true} }

// Blocked holds when a thread of any member waits in a system call.
func Blocked() Condition { return BlockedIn(0, "") }

// BlockedIn holds when a thread of process pid waits in the named system call. Pid 0 stands for any
// process, and an empty name for any call.
func BlockedIn(pid int, call string) Condition {
	wanted := params{}
	if pid != 0 {
		wanted["pid"] = pid
	}
	if call != "" {
		wanted["call"] = call
	}
	return condition{"blocked": wanted}
}

// Skipped holds when all leaps that [Timeline.Skip] allowed have been made.
func Skipped() Condition { return condition{"skipped": true} }

// Empty holds when the timeline has no members.
func Empty() Condition { return condition{"empty": true} }

// Joined holds when process pid has started its program on the timeline, or has ended.
func Joined(pid int) Condition { return condition{"joined": pid} }

// Ended holds when the timeline has ended.
func Ended() Condition { return condition{"ended": true} }
