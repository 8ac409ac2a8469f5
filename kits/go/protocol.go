package eigentime

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// The version of the protocol that this package speaks.
const protocolVersion = 1

// How long a timeline may take to give an immediate answer.
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

// Error is why a timeline, or the command that makes it, did not do as asked. A timeout is also a
// [context.DeadlineExceeded] for [errors.Is].
type Error struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Help    string `json:"help"` // how to fix it, or ""
}

func (err *Error) Error() string {
	if err.Help == "" {
		return "eigentime: " + err.Message
	}
	return "eigentime: " + err.Message + "\nhelp: " + err.Help
}

// Is implements the comparison for [errors.Is].
func (err *Error) Is(target error) bool {
	return err.Code == CodeTimeout && target == context.DeadlineExceeded || err.Code == CodeEnded && target == errEnded
}

// errEnded is an Error with CodeEnded, for [errors.Is].
var errEnded = errors.New("the timeline has ended")

// wrap adds the timeline's name to an error that is not the timeline's answer. Connection errors mean that it has
// ended.
func (timeline *Timeline) wrap(doing string, err error) error {
	for _, sign := range []error{os.ErrNotExist, syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.EPIPE, io.EOF, io.ErrUnexpectedEOF} {
		if errors.Is(err, sign) {
			return &Error{Code: CodeEnded, Message: fmt.Sprintf("timeline '%s': it has ended", timeline.name)}
		}
	}
	return fmt.Errorf("eigentime: timeline '%s': %s: %w", timeline.name, doing, err)
}

type params map[string]any

// answer is a timeline's answer.
type answer struct {
	Virtual Instant         `json:"virtual_ns"`
	Result  json.RawMessage `json:"result"`
	Error   *Error          `json:"error"`
}

// connection is a connection to the socket of a timeline, for one request.
type connection struct {
	net.Conn
	lines  *json.Decoder
	answer answer
}

// ask sends the request and reads its answer.
func (connection *connection) ask(method string, params params) error {
	request := map[string]any{"method": method, "params": params, "protocol": protocolVersion}
	if err := json.NewEncoder(connection).Encode(request); err != nil {
		return err
	}
	if err := connection.lines.Decode(&connection.answer); err != nil {
		return err
	}
	if connection.answer.Error != nil {
		return connection.answer.Error
	}
	return nil
}

// How long after a deadline a timeline may still say why the condition does not hold.
const lateness = 10 * time.Second

// begin makes a request on its own connection, which is closed when ctx is done: that tells the timeline that
// the caller has stopped waiting. If another supervisor has taken over the timeline, the request is repeated to
// that one: it has changed nothing so far.
func (timeline *Timeline) begin(ctx context.Context, method string, params params) (*connection, func(), error) {
	for {
		connection, err := timeline.dial()
		if err != nil {
			return nil, nil, err
		}
		stop := context.AfterFunc(ctx, func() {
			if method == "wait" && errors.Is(ctx.Err(), context.DeadlineExceeded) {
				connection.SetDeadline(time.Now().Add(lateness)) // the answer is on its way
			} else {
				connection.Close()
			}
		})
		hangUp := func() {
			stop()
			connection.Close()
		}
		if err = connection.ask(method, params); err == nil {
			return connection, hangUp, nil
		}
		hangUp()
		var refusal *Error
		if !errors.As(err, &refusal) {
			return nil, nil, timeline.wrap(method, cmp.Or(ctx.Err(), err))
		}
		if refusal.Code != CodeMoved {
			return nil, nil, err
		}
	}
}

// exchange makes a request that is answered immediately.
func (timeline *Timeline) exchange(method string, params params) (answer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), answerTime)
	defer cancel()
	connection, hangUp, err := timeline.begin(ctx, method, params)
	if err != nil {
		return answer{}, err
	}
	hangUp()
	return connection.answer, nil
}

func (timeline *Timeline) call(method string, params params, result any) error {
	answer, err := timeline.exchange(method, params)
	if err != nil || result == nil {
		return err
	}
	return json.Unmarshal(answer.Result, result)
}

// dial opens a connection through a path that stays short however long the directory's is.
func (timeline *Timeline) dial() (*connection, error) {
	directory, err := os.Open(filepath.Dir(timeline.socket))
	if err == nil {
		defer directory.Close()
		var socket net.Conn
		near := filepath.Join("/proc/self/fd", strconv.Itoa(int(directory.Fd())), filepath.Base(timeline.socket))
		if socket, err = net.Dial("unix", near); err == nil {
			return &connection{Conn: socket, lines: json.NewDecoder(socket)}, nil
		}
	}
	return nil, timeline.wrap("connecting", err)
}
