package eigentime

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// The version of the protocol that this package speaks.
const protocolVersion = 1

// How long a timeline may take for an answer that it gives at once.
const answerTime = time.Minute

// Codes of an [Error].
const (
	CodeCommand             = "command" // the command eigentime is missing or has failed; not of the protocol
	CodeInvalidRequest      = "invalid_request"
	CodeUnknownMethod       = "unknown_method"
	CodeInvalidParams       = "invalid_params"
	CodeUnsupportedProtocol = "unsupported_protocol"
	CodeForbidden           = "forbidden"
	CodeRefused             = "refused"
	CodeTimeout             = "timeout"
	CodeEnded               = "ended"
	CodeMoved               = "moved"
)

// Error is why a timeline, or the command that makes it, did not do what it was asked. A timeout is also a
// [context.DeadlineExceeded] for [errors.Is].
type Error struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Help    string `json:"help"` // the way out, or ""
}

func (err *Error) Error() string {
	if err.Help == "" {
		return "eigentime: " + err.Message
	}
	return "eigentime: " + err.Message + "\nhelp: " + err.Help
}

// Is implements the comparison of [errors.Is].
func (err *Error) Is(target error) bool {
	return err.Code == CodeTimeout && target == context.DeadlineExceeded
}

// errGone says that nothing listens for a timeline.
var errGone = errors.New("there is no such timeline, or it has ended")

// wrap says which timeline an error concerns that is not the timeline's answer.
func (timeline *Timeline) wrap(doing string, err error) error {
	return fmt.Errorf("eigentime: timeline '%s': %s: %w", timeline.name, doing, err)
}

type params map[string]any

// answer is what a timeline answers.
type answer struct {
	Virtual Instant         `json:"virtual_ns"`
	Result  json.RawMessage `json:"result"`
	Error   *Error          `json:"error"`
}

// connection is a connection to the socket of a timeline.
type connection struct {
	net.Conn
	lines *json.Decoder
}

// ask makes one request and reads its answer.
func (connection *connection) ask(method string, params params) (answer, error) {
	if params == nil {
		params = map[string]any{}
	}
	var answer answer
	request := map[string]any{"method": method, "params": params, "protocol": protocolVersion}
	if err := json.NewEncoder(connection).Encode(request); err != nil {
		return answer, err
	}
	if err := connection.lines.Decode(&answer); err != nil {
		return answer, err
	}
	if answer.Error != nil {
		return answer, answer.Error
	}
	return answer, nil
}

// exchange makes a request that is answered at once. Where another supervisor has taken the timeline over, it
// is made again, to that one: the request has changed nothing then.
func (timeline *Timeline) exchange(method string, params params) (answer, error) {
	timeline.mutex.Lock()
	defer timeline.mutex.Unlock()
	for {
		if timeline.connection == nil {
			connection, err := timeline.dial()
			if err != nil {
				return answer{}, err
			}
			timeline.connection = connection
		}
		timeline.connection.SetDeadline(time.Now().Add(answerTime))
		answer, err := timeline.connection.ask(method, params)
		var refusal *Error
		if errors.As(err, &refusal) && refusal.Code != CodeMoved || err == nil {
			return answer, err
		}
		timeline.hangUp()
		// Nobody has read a request that could not be written.
		if refusal == nil && !errors.Is(err, syscall.EPIPE) {
			return answer, timeline.wrap(method, err)
		}
	}
}

func (timeline *Timeline) call(method string, params params, result any) error {
	answer, err := timeline.exchange(method, params)
	if err != nil || result == nil {
		return err
	}
	return json.Unmarshal(answer.Result, result)
}

// hangUp closes the connection, if there is one. The caller holds the mutex.
func (timeline *Timeline) hangUp() {
	if timeline.connection != nil {
		timeline.connection.Close()
		timeline.connection = nil
	}
}

// dial opens a connection. The timeline is in one of the directories of the user, unless it is known in which.
func (timeline *Timeline) dial() (*connection, error) {
	for _, directory := range timeline.directories() {
		socket, err := dialIn(directory, timeline.name)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
			continue
		}
		if err != nil {
			return nil, timeline.wrap("connecting", err)
		}
		return &connection{Conn: socket, lines: json.NewDecoder(socket)}, nil
	}
	return nil, timeline.wrap("connecting", errGone)
}

// dialIn connects to a socket by a path that is short, however long that of its directory is.
func dialIn(directory, name string) (net.Conn, error) {
	open, err := os.Open(directory)
	if err != nil {
		return nil, err
	}
	defer open.Close()
	return net.Dial("unix", filepath.Join("/proc/self/fd", strconv.Itoa(int(open.Fd())), name))
}

// directories are those in which the timeline can be: "Where timelines are found" in docs/guide/timelines.md.
func (timeline *Timeline) directories() []string {
	if timeline.runtime != "" {
		return []string{filepath.Join(timeline.runtime, "eigentime")}
	}
	user := strconv.Itoa(os.Geteuid())
	var directories []string
	if named := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(named) {
		directories = append(directories, filepath.Join(named, "eigentime"))
	}
	if user == "0" {
		directories = append(directories, "/run/eigentime")
	}
	return append(directories, filepath.Join("/run/user", user, "eigentime"), "/tmp/eigentime-"+user)
}
