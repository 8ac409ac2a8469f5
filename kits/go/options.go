package eigentime

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"
)

// Option says how [New] and [Create] make a timeline. A [Setting] is one, too.
type Option interface{ create(*creation) }

// creation is what a timeline is made of.
type creation struct {
	name      string
	saved     []byte
	arguments []string // of `eigentime ctl create`
}

type optionFunc func(*creation)

func (option optionFunc) create(creation *creation) { option(creation) }

// Name gives the timeline a name by which `eigentime ctl`, other programs and containers find it. Without it,
// a timeline has a runtime directory of its own, so that parallel tests never meet.
func Name(name string) Option {
	return optionFunc(func(creation *creation) { creation.name = name })
}

// Joinable lets containers join the timeline. It is then where their engine finds it, by the name given, or
// else by one that no other timeline has.
func Joinable() Option { return Arguments("--joinable") }

// Continue continues a timeline that [Timeline.Save] has saved.
func Continue(saved json.RawMessage) Option {
	return optionFunc(func(creation *creation) {
		creation.saved = saved
		creation.arguments = append(creation.arguments, "--continue", "-")
	})
}

// SkipIdle lets the clocks leap to the next deadline whenever all programs of the timeline wait.
func SkipIdle() Option { return Arguments("--skip-idle") }

// SkipWhenTold is SkipIdle, but the clocks leap only when [Timeline.Skip] allows it.
func SkipWhenTold() Option { return Arguments("--skip-idle", "--skips", "0") }

// Frozen makes a timeline whose clocks stand still until [Timeline.Thaw].
func Frozen() Option { return Arguments("--freeze") }

// Arguments are further options of `eigentime ctl create`, as on the command line.
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

// Date is the date that the wall clock shows, as text: "2038-01-19" or "2038-01-19T03:14:07Z". A date
// without a zone is one in local time.
func Date(date string) Setting { return Setting{"date", date} }

// At is the instant that the wall clock shows.
func At(instant time.Time) Setting { return Setting{"date", dateOf(instant)} }

// Offset is how far the wall clock is ahead of the host's.
func Offset(offset time.Duration) Setting { return Setting{"offset", spanOf(offset)} }

// Rate is how many seconds pass in one second of the host.
func Rate(rate float64) Setting { return Setting{"rate", strconv.FormatFloat(rate, 'f', -1, 64)} }

func dateOf(instant time.Time) string { return instant.UTC().Format(time.RFC3339Nano) }

// spanOf is exact, and understood both by the command line and by the protocol.
func spanOf(span time.Duration) string { return fmt.Sprintf("%+dns", span.Nanoseconds()) }

// Limit says which leaps over idle time [Timeline.Skip] allows: [All], [Times], [For] or [Until].
type Limit interface{ limit() params }

// Condition is what [Timeline.Wait] waits for: [For], [Until], [Idle], [Blocked], [BlockedIn], [Joined],
// [Skipped], [Empty] or [Ended].
type Condition interface{ condition() params }

type limit params

func (limit limit) limit() params { return params(limit) }

type condition params

func (condition condition) condition() params { return params(condition) }

// Moment is an instant or a span of virtual time, and both a [Limit] and a [Condition].
type Moment struct{ params params }

func (moment Moment) limit() params     { return moment.params }
func (moment Moment) condition() params { return moment.params }

// For is a span of virtual time, from now on.
func For(span time.Duration) Moment { return Moment{params{"for": spanOf(span)}} }

// Until is when the wall clock shows an instant or a later one.
func Until(instant time.Time) Moment { return Moment{params{"until": dateOf(instant)}} }

// All is all leaps from now on.
func All() Limit { return limit{} }

// Times is a number of leaps.
func Times(times uint) Limit { return limit{"times": times} }

// Idle is when all threads of all members wait: a server has started, for instance.
func Idle() Condition { return condition{"idle": true} }

// Blocked is when a thread of any member waits in a system call.
func Blocked() Condition { return BlockedIn(0, "") }

// BlockedIn is when a thread of the process pid waits in the system call of this name. Pid 0 stands for any
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

// Skipped is when all leaps have been made that [Timeline.Skip] allowed.
func Skipped() Condition { return condition{"skipped": true} }

// Empty is when the timeline has no members.
func Empty() Condition { return condition{"empty": true} }

// Joined is when the process pid has started its program on the timeline, or has ended.
func Joined(pid int) Condition { return condition{"joined": pid} }

// Ended is when the timeline has ended.
func Ended() Condition { return condition{"ended": true} }
